import sys
from playwright.sync_api import sync_playwright
file='/tmp/E/page.html'
with sync_playwright() as p:
    b = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    for w,hh,scheme in ((1440,900,'light'),(390,844,'dark')):
        pg = b.new_page(viewport={"width":w,"height":hh}, color_scheme=scheme); pg.set_default_timeout(60000)
        pg.on("console", lambda m: print("CONSOLE", m.text)); pg.on("pageerror", lambda e: print("ERROR", e, e.stack))
        pg.goto(f"file://{file}#qkv", wait_until="commit"); pg.wait_for_selector("body.ready"); 
        def shot(n): pg.wait_for_timeout(300); pg.screenshot(path=f"/tmp/E/x-{n}-{w}.png", full_page=(w>1000))
        pg.locator('#screen table.numbers').nth(1).locator('button').nth(10).click(); shot('qkv')
        pg.keyboard.press('Escape'); pg.keyboard.press('g'); pg.evaluate("location.hash='softmax:decoder.layers.1.self_attention'"); pg.wait_for_timeout(500)
        pg.locator('figure.gradient table.numbers').nth(0).locator('button').nth(4).click(); shot('softgrad')
        pg.keyboard.press('Escape'); pg.evaluate("location.hash='loss'"); pg.wait_for_timeout(500)
        pg.fill('input[name=target]', "Je vous aime"); pg.click('[data-key="target-go"]'); shot('loss')
        pg.evaluate("location.hash='backward'"); shot('backward')
        pg.evaluate("location.hash='walkthrough'"); shot('walk')
    b.close()
