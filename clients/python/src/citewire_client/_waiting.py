"""How each client waits."""

import asyncio
import time

async_sleep = asyncio.sleep
sleep = time.sleep
