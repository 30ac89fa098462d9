import { expect, it } from "vitest";

import { initialState, reduce } from "../../model/consult";
import { EVENT } from "../../model/events";
import { focusOf, layout } from "./layout";

const output = Array.from({ length: 15 }, (_, index) => `m${index + 1}.md`);
const state = reduce(reduce(initialState(), { id: 1, name: EVENT.agentStart, at: 0, data: { layer: 2, agent_id: "a", persona: "A" } }), {
  id: 2,
  name: EVENT.agentComplete,
  at: 0,
  data: { layer: 2, agent_id: "a", output },
});

it("focusOf returns the debate when zoomed in, the layer at a middle zoom, and null when zoomed out", () => {
  const drawn = layout(state);
  const debate = drawn.debates.find((box) => box.id === "m7");
  if (!debate) throw new Error("the layout has no box for the debate of move m7");
  const window = { width: 1000, height: 600 };
  const centred = (zoom: number) => ({ x: 500 - (debate.x + debate.width / 2) * zoom, y: 300 - (debate.y + debate.height / 2) * zoom, zoom, ...window });
  expect(focusOf(drawn, centred(2.2))).toBe("m7");
  expect(focusOf(drawn, centred(1))).toBe("sandbox");
  expect(focusOf(drawn, centred(0.2))).toBe(null);
  expect(focusOf(drawn, { x: 0, y: 0, zoom: 0.5, width: 5000, height: 3000 })).toBe(null);
});

it("layout places layers and debates without overlap", () => {
  const { layers, debates } = layout(state);
  for (const boxes of [layers, debates]) {
    for (const [index, one] of boxes.entries()) {
      for (const other of boxes.slice(index + 1)) {
        const apart = one.x + one.width <= other.x || other.x + other.width <= one.x || one.y + one.height <= other.y || other.y + other.height <= one.y;
        expect(apart, `${one.id} and ${other.id} do not overlap`).toBe(true);
      }
    }
  }
  expect(debates.map((box) => box.id)).toEqual(output.map((name) => name.slice(0, -3)));
});
