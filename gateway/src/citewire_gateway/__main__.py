"""The gateway and its commands: `python -m citewire_gateway [serve | migrate | rotate | keys … | …]`."""

from citewire_gateway.commands import main

if __name__ == "__main__":
    main()
