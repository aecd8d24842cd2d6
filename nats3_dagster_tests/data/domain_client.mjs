// Reads the archives' domain with the libraries of JavaScript, and prints what came as one line of JSON.
//   node domain_client.mjs URL STREAM BUCKET OBJECTS
import { connect } from "@nats-io/transport-node";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";

const [url, stream, bucket, objects] = process.argv.slice(2);
const client = await connect({ servers: url });
const jsm = await jetstreamManager(client, { domain: "archive", checkAPI: false });
const out = {};
out.names = (await jsm.streams.names().next()).sort();
out.messages = (await jsm.streams.info(stream)).state.messages;
out.stored = (await jsm.streams.getMessage(stream, { seq: 3 })).string();
out.direct = (await jsm.direct.getMessage(stream, { seq: 3 })).string();
out.last = (await jsm.direct.getMessage(stream, { last_by_subj: "ev.1" })).seq;
out.batch = [];
for await (const m of await jsm.direct.getBatch(stream, { seq: 2, batch: 3 })) {
  out.batch.push(m.seq);
}
out.lasts = [];
for await (const m of await jsm.direct.getLastMessagesFor(stream, { multi_last: ["ev.>"] })) {
  out.lasts.push(m.seq);
}
const js = jetstream(client, { domain: "archive", checkAPI: false });
const kv = await new Kvm(js).open(bucket, { allow_direct: true });
out.kv = (await kv.get("color")).string();
out.revision = (await kv.get("color", { revision: 1 })).string();
const store = await new Objm(js).open(objects);
out.object = (await store.info("file")).size;
try {
  await store.getBlob("file");
} catch (error) {
  out.refused = error.message;
}
console.log(JSON.stringify(out));
await client.close();
