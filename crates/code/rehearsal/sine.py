import math

points = " ".join(f"{x},{60 - 50 * math.sin(x / 20):.1f}" for x in range(0, 400, 4))
svg = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 120">'
    f'<polyline points="{points}" fill="none" stroke="black"/></svg>'
)
with open("sine.svg", "w") as file:
    file.write(svg)
print(f"sine.svg, {len(svg)} bytes")
