"""How the sync and async clients wait."""

import asyncio
import time

async_sleep = asyncio.sleep
sleep = time.sleep
