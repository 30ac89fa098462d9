"""Peer of the benchmark: runs one case on LangGraph in one mode, timed in this process.

Usage: peer.py CASE MODE REPEATS ANSWERS.json

The debate has the same nodes as the debate of assize. Every call to the model is a separate task,
so that with a checkpointer each finished call is durable by itself, as in assize.
"""

import asyncio
import json
import operator
import os
import resource
import sys
import tempfile
import time
from typing import Annotated

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

ROUNDS = 10
MOVE = "# Open a second bakery\n\nWe open a second shop near the station, with a loan."
METRICS = ["impact", "feasibility", "risk_adjusted_return", "strategic_alignment"]
PERSONAS = {"critic": "You are the critic.", "D1": "You are D1.", "D2": "You are D2.", "D3": "You are D3."}
LOGS = {"i1": "D1", "i2": "D2", "i3": "D3"}


class Model:
    """Model that answers at once, with prepared answers."""

    def __init__(self, answers):
        self.prose, self.scores = answers["prose"], answers["scores"]
        self.calls = 0

    async def ask(self, persona, prompt, scoring=False):
        assert persona and prompt
        self.calls += 1
        return self.scores if scoring else self.prose[self.calls % len(self.prose)]


def transcript(log):
    return "\n---\n".join(
        f"**[Round {entry['round']}] {entry['role']}:**\n{entry['content']}\n" for entry in log
    )


class Debate(TypedDict):
    move: str
    i1: Annotated[list, operator.add]
    i2: Annotated[list, operator.add]
    i3: Annotated[list, operator.add]
    scores: Annotated[dict, operator.or_]


def debate_graph(model):
    async def critic_round_1(state):
        text = await model.ask(PERSONAS["critic"], f"{state['move']}\n\nOpen the hearing.")
        entry = {"role": "critic", "content": text, "round": 1}
        sends = [
            Send("dm_respond", {"move": state["move"], "log": log, "said": [entry]}) for log in LOGS
        ]
        return Command(update={log: [entry] for log in LOGS}, goto=sends)

    async def dm_respond(task):
        log, said = task["log"], task["said"]
        round_number = said[-1]["round"]
        judge = LOGS[log]
        text = await model.ask(PERSONAS[judge], f"{task['move']}\n\n{transcript(said)}\n\nAnswer.")
        entry = {"role": judge, "content": text, "round": round_number}
        goto = "critic_individual" if round_number < ROUNDS else "score_move"
        send = Send(goto, {**task, "said": said + [entry]})
        return Command(update={log: [entry]}, goto=[send])

    async def critic_individual(task):
        log, said = task["log"], task["said"]
        text = await model.ask(PERSONAS["critic"], f"{task['move']}\n\n{transcript(said)}\n\nPress.")
        entry = {"role": "critic", "content": text, "round": said[-1]["round"] + 1}
        return Command(update={log: [entry]}, goto=[Send("dm_respond", {**task, "said": said + [entry]})])

    async def score_move(task):
        judge = LOGS[task["log"]]
        prompt = f"{task['move']}\n\n{transcript(task['said'])}\n\nScore."
        scores = json.loads(await model.ask(PERSONAS[judge], prompt, scoring=True))
        return {"scores": {judge: {metric: scores[metric] for metric in METRICS}}}

    builder = StateGraph(Debate)
    builder.add_node("critic_round_1", critic_round_1)
    builder.add_node("dm_respond", dm_respond)
    builder.add_node("critic_individual", critic_individual)
    builder.add_node("score_move", score_move)
    builder.add_edge(START, "critic_round_1")
    builder.add_edge("score_move", END)
    return builder


class Fan(TypedDict):
    results: Annotated[list, operator.add]
    total: int


def fan_graph(model, per_branch):
    async def dispatch(state):
        return {}

    def send(state):
        return [Send("work", {"number": number}) for number in range(15)]

    async def reduce(state):
        return {"total": sum(len(result["text"]) for result in state["results"])}

    builder = StateGraph(Fan)
    builder.add_node("dispatch", dispatch)
    builder.add_node("work", per_branch)
    builder.add_node("reduce", reduce)
    builder.add_edge(START, "dispatch")
    builder.add_conditional_edges("dispatch", send, ["work"])
    builder.add_edge("work", "reduce")
    builder.add_edge("reduce", END)
    return builder


def start_of_debate():
    return {"move": MOVE, "i1": [], "i2": [], "i3": [], "scores": {}}


def case_of(name, model, saver):
    """Returns the compiled graph, its input, and its number of model calls."""
    if name == "a":
        return debate_graph(model).compile(checkpointer=saver), start_of_debate(), 61
    if name == "b":

        async def one(task):
            return {"results": [{"text": await model.ask("You analyse.", f"Move {task['number']}")}]}

        return fan_graph(model, one).compile(checkpointer=saver), {"results": [], "total": 0}, 15
    inner = debate_graph(model).compile()

    async def whole_debate(task):
        result = await inner.ainvoke(start_of_debate())
        return {"results": [{"text": transcript(result["i1"]), "scores": result["scores"]}]}

    return (
        fan_graph(model, whole_debate).compile(checkpointer=saver),
        {"results": [], "total": 0},
        15 * 61,
    )


async def once(name, mode, answers, path):
    """Executes one run, checks its number of model calls, and returns its duration in seconds."""
    model = Model(answers)

    async def run(saver):
        graph, state, calls = case_of(name, model, saver)
        config = {"recursion_limit": 1000, "configurable": {"thread_id": "1"}}
        options = {"durability": "sync"} if saver else {}
        started = time.perf_counter()
        await graph.ainvoke(state, config, **options)
        took = time.perf_counter() - started
        assert model.calls == calls, (model.calls, calls)
        return took

    if mode == "none":
        return await run(None)
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        await saver.setup()
        await saver.conn.execute(f"PRAGMA synchronous={mode}")
        return await run(saver)


def main():
    name, mode, repeats, answers = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    with open(answers) as file:
        answers = json.load(file)
    seconds, size = [], 0
    for number in range(repeats + 1):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "checkpoints.db")
            took = asyncio.run(once(name, mode, answers, path))
            # The first run is a warm-up.
            if number > 0:
                seconds.append(took)
            size = sum(entry.stat().st_size for entry in os.scandir(folder))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "bytes": size, "peak_kb": peak}))


main()
