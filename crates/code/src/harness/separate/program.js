// Process of the program under test: runs the program, and answers the calls of the tests.
'use strict';

const path = require('node:path');
const { Peer, Ended } = require(path.join(__dirname, 'peer.js'));

const printed = [];
for (const name of ['stdout', 'stderr']) {
  process[name].write = (text, encoding, done) => {
    printed.push([name, typeof text === 'string' ? text : Buffer.from(text).toString()]);
    const after = typeof encoding === 'function' ? encoding : done;
    if (after) queueMicrotask(after);
    return true;
  };
}
const peer = new Peer(3, false);
peer.printed = () => printed.splice(0);
peer.operations.load = (_, name) => require(name);

(async () => {
  try {
    for (;;) {
      const message = peer.receive();
      if (message.operation === 'await') {
        const outcome = await Promise.resolve(peer.exports.get(message.target.yours)).then(
          (value) => ['value', value],
          (error) => ['error', error],
        );
        peer.reply(message.request, outcome, { mutable: [] }, []);
      } else {
        peer.answer(message);
      }
      // Lets timers and promises of the program make progress.
      await new Promise(setImmediate);
    }
  } catch (error) {
    if (!(error instanceof Ended)) throw error;
    process.reallyExit(0);
  }
})();
