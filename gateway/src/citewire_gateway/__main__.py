"""The gateway's processes: `python -m citewire_gateway [serve | migrate | keys … | rotate]`."""

from citewire_gateway.commands import main

if __name__ == "__main__":
    main()
