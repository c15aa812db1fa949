package judge

import (
	"compress/gzip"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/jepsen/internal/history"
)

// Parts of histories of real runs: testdata/WORKLOAD.jsonl.gz has some keys of one run. Each must be
// accepted, and refused after each mutation.

const realTries = 5 // places by chance of each mutation

// certainKey says whether every operation of a key has a known outcome.
func certainKey(h *history.History, key string) bool {
	for _, o := range h.Ops {
		if o.Key == key && o.Type == history.Info {
			return false
		}
	}
	return true
}

// atFinal changes a last read of a key whose content is certain: other nodes show the content.
func atFinal(name string, change func(h *history.History, o *history.Op) bool) mutation {
	return mutation{name, func(r *rand.Rand, h *history.History) bool {
		o := some(r, h, func(o *history.Op) bool {
			return o.Final && (o.F == "read" || o.F == "list" || o.F == "look") && certainKey(h, o.Key)
		})
		return o != nil && change(h, o)
	}}
}

// anOp changes an operation that fits.
func anOp(name string, fits func(*history.History, *history.Op) bool, change func(*history.Op)) mutation {
	return mutation{name, func(r *rand.Rand, h *history.History) bool {
		o := some(r, h, func(o *history.Op) bool { return o.Type == history.OK && fits(h, o) })
		if o != nil {
			change(o)
		}
		return o != nil
	}}
}

func written(o *history.Op) bool {
	return o.F == "write" && o.Type == history.OK && (o.Version > 0 || !strings.HasPrefix(o.Key, versionedPrefix))
}

var realRegister = []mutation{
	anOp("phantom: no client wrote the value", func(_ *history.History, o *history.Op) bool { return o.F == "read" && o.Value != 0 },
		func(o *history.Op) { o.Value = -1 }),
	{"early: read before it was written", func(r *rand.Rand, h *history.History) bool {
		write := some(r, h, written)
		read := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Key == write.Key && o.Before(write) })
		if read != nil {
			read.Value, read.Version = write.Arg, write.Version
		}
		return read != nil
	}},
	atFinal("lost: one node has nothing", func(_ *history.History, o *history.Op) bool {
		had := o.Value != 0
		o.Value, o.Version = 0, 0
		return had
	}),
	atFinal("stale: one node has an older value", func(h *history.History, o *history.Op) bool {
		for _, w := range h.Ops {
			if w.Key == o.Key && written(w) && w.Arg != o.Value {
				o.Value, o.Version = w.Arg, w.Version
				return true
			}
		}
		return false
	}),
}

// finalList changes a last read of a list.
func finalList(name string, fits func(*history.History, *history.Op) bool, change func(*history.Op)) mutation {
	return anOp(name, func(h *history.History, o *history.Op) bool {
		return o.Final && o.F == "read" && len(o.Values) > 1 && fits(h, o)
	}, change)
}

// acknowledgedLast says whether the last element of a list was appended for certain.
func acknowledgedLast(h *history.History, o *history.Op) bool {
	for _, a := range h.Ops {
		if a.F == "append" && a.Type == history.OK && a.Key == o.Key && a.Arg == o.Values[len(o.Values)-1] {
			return true
		}
	}
	return false
}

func always(*history.History, *history.Op) bool { return true }

var realLists = []mutation{
	finalList("lost: the last element", acknowledgedLast, func(o *history.Op) { o.Values = o.Values[:len(o.Values)-1] }),
	finalList("swapped: the first two elements", always, func(o *history.Op) {
		o.Values[0], o.Values[1] = o.Values[1], o.Values[0]
	}),
	finalList("doubled: an element", always, func(o *history.Op) { o.Values = append(o.Values, o.Values[0]) }),
	finalList("phantom: an element", always, func(o *history.Op) { o.Values = append(o.Values, -1) }),
}

var realSet = []mutation{
	{"lost: a list lacks what was added before", func(r *rand.Rand, h *history.History) bool {
		a := some(r, h, isOK("add"))
		l := some(r, h, func(o *history.Op) bool {
			return (o.F == "list" || o.F == "walk") && o.Type == history.OK && o.Key == a.Key && a.Before(o)
		})
		if l != nil {
			l.Names = withoutName(l.Names, a.Text)
		}
		return l != nil
	}},
	anOp("doubled: a name", func(_ *history.History, o *history.Op) bool { return len(o.Names) > 0 },
		func(o *history.Op) { o.Names = append(o.Names, o.Names[0]) }),
	anOp("phantom: a name", func(_ *history.History, o *history.Op) bool { return len(o.Names) > 0 },
		func(o *history.Op) { o.Names = append(o.Names, "phantom") }),
}

// revokedBefore says whether the tree of a token was revoked for certain before o, or asked to be.
func revokedBefore(h *history.History, o *history.Op, certainly bool) bool {
	root, _, isTree := strings.Cut(o.Key, ".")
	for _, r := range h.Ops {
		if isTree && r.F == "revoke" && r.Key == root {
			if certainly && r.Type == history.OK && r.Before(o) {
				return true
			}
			if !certainly && r.Invoke <= o.Return {
				return true
			}
		}
	}
	return false
}

var realTokens = []mutation{
	anOp("late: a revoked token is accepted", func(h *history.History, o *history.Op) bool {
		return o.F == "use" && o.Value == 0 && revokedBefore(h, o, true)
	}, func(o *history.Op) { o.Value = 1 }),
	anOp("early: a good token is refused", func(h *history.History, o *history.Op) bool {
		return o.F == "use" && o.Value == 1 && strings.Contains(o.Key, ".") && !revokedBefore(h, o, false)
	}, func(o *history.Op) { o.Value = 0 }),
	anOp("early: refused before what the last renewal gave", func(h *history.History, o *history.Op) bool {
		now, _, ttl := lifeOf(h, o)
		return o.F == "use" && o.Value == 1 && ttl > 0 && o.Return < now-early
	}, func(o *history.Op) { o.Value = 0 }),
	{"late: accepted long after what the last renewal gave", func(r *rand.Rand, h *history.History) bool {
		o := some(r, h, func(o *history.Op) bool {
			_, last, ttl := lifeOf(h, o)
			return o.F == "use" && ttl > 0 && last > 0
		})
		_, last, _ := lifeOf(h, o)
		h.Ops = append(h.Ops, &history.Op{F: "use", Key: o.Key, Type: history.OK, Value: 1, Invoke: last + lateMax + 1, Return: last + lateMax + 2})
		return true
	}},
	anOp("a renewal gives too much", func(_ *history.History, o *history.Op) bool { return o.F == "renew" && o.Value > 0 },
		func(o *history.Op) { o.Value += lateMax }),
	anOp("a batch token is renewed", func(_ *history.History, o *history.Op) bool { return o.Value == NotRenewable },
		func(o *history.Op) { o.Value = o.Return + second }),
	anOp("early: a batch token without a parent ends with the tree", func(_ *history.History, o *history.Op) bool {
		return o.F == "use" && o.Value == 1 && strings.HasSuffix(o.Key, ".orphan")
	}, func(o *history.Op) { o.Value = 0 }),
}

var realOnce = []mutation{{"doubled: two are good", func(r *rand.Rand, h *history.History) bool {
	good := some(r, h, isOK("use"))
	o := some(r, h, func(o *history.Op) bool { return o.F == "use" && o.Key == good.Key && o.Type == history.Fail })
	if o != nil {
		o.Type = history.OK
	}
	return o != nil
}}, {"lost: all are refused", func(r *rand.Rand, h *history.History) bool {
	good := some(r, h, func(o *history.Op) bool { return isOK("use")(o) && certainKey(h, o.Key) })
	if good != nil {
		good.Type = history.Fail
	}
	return good != nil
}}}

var realAuthority = []mutation{
	atFinal("swapped: one node decides otherwise", func(_ *history.History, o *history.Op) bool {
		o.Value = Allowed + Denied - o.Value
		return true
	}),
}

var realCreate = []mutation{
	anOp("two ids", func(_ *history.History, o *history.Op) bool { return o.Final && o.F == "look" && o.Text != "" },
		func(o *history.Op) { o.Text = "another" }),
	anOp("swapped: it is of another client", func(_ *history.History, o *history.Op) bool {
		return o.Final && o.F == "look" && o.Text != ""
	}, func(o *history.Op) { o.Arg = -1 }),
	anOp("lost: one node lacks it", func(_ *history.History, o *history.Op) bool {
		return o.Final && o.F == "look" && o.Text != ""
	}, func(o *history.Op) { o.Text, o.Arg = "", 0 }),
}

// servedWhileClosed adds an answer between an end of service and what allows it again.
func servedWhileClosed(closing, opening string) mutation {
	return mutation{"served between " + closing + " and " + opening, func(r *rand.Rand, h *history.History) bool {
		shut := some(r, h, func(o *history.Op) bool { return o.F == closing && o.Type == history.OK })
		pending, until := false, int64(history.Open)
		for _, o := range h.Ops {
			if o.F != opening || o.Key != shut.Key {
				continue
			}
			pending = pending || (o.Type == history.Info && o.Invoke < shut.Invoke)
			if o.Type != history.Fail && o.Invoke > shut.Invoke {
				until = min(until, o.Invoke)
			}
		}
		if pending || until <= shut.Return+2 {
			return false
		}
		h.Ops = append(h.Ops, &history.Op{F: "serve", Key: shut.Key, Type: history.OK, Value: 1, Invoke: shut.Return + 1, Return: shut.Return + 2})
		return true
	}}
}

var realSeal = append(shareMutations(), servedWhileClosed("seal", "unseal"))

var realMembers = []mutation{
	servedWhileClosed("remove", "admit"),
	anOp("phantom: no client wrote the value", func(_ *history.History, o *history.Op) bool { return o.F == "read" && o.Value != 0 },
		func(o *history.Op) { o.Value = -1 }),
}

var realRestore = []mutation{
	anOp("phantom: no client wrote the value", func(_ *history.History, o *history.Op) bool { return o.F == "read" && o.Value != 0 },
		func(o *history.Op) { o.Value = -1 }),
	{"early: read before it was written", func(r *rand.Rand, h *history.History) bool {
		write := some(r, h, func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK })
		read := some(r, h, func(o *history.Op) bool {
			return o.F == "read" && o.Type == history.OK && o.Key == write.Key && o.Version == write.Version && o.Before(write)
		})
		if read == nil {
			return false
		}
		read.Value = write.Arg
		return true
	}},
	atFinal("swapped: one node shows nothing where others show a value, or the other way round", func(h *history.History, o *history.Op) bool {
		other := int64(0)
		for _, w := range h.Ops {
			if o.Value == 0 && w.F == "write" && w.Key == o.Key && w.Version == o.Version {
				other = w.Arg
			}
		}
		if o.Value == other || o.Version == restoreShared { // a write of an earlier round may come late
			return false
		}
		o.Value = other
		return true
	}),
}

var realMove = []mutation{
	atFinal("swapped: one node shows another place", func(_ *history.History, o *history.Op) bool {
		o.Arg = 3 - o.Arg
		return true
	}),
	anOp("the secret of another mount", func(_ *history.History, o *history.Op) bool { return o.F == "read" && o.Value == 1 },
		func(o *history.Op) { o.Version = -1 }),
}

var realQuota = []mutation{
	anOp("early: refused by a node that had served no request", func(_ *history.History, o *history.Op) bool { return o.Value == 0 },
		func(o *history.Op) { o.Node = "node9" }),
	{"doubled: each is served five times", func(_ *rand.Rand, h *history.History) bool {
		var ops []*history.Op
		for _, o := range h.Ops {
			for range 5 {
				ops = append(ops, o)
			}
		}
		h.Ops = ops
		return true
	}},
}

var realAudit = []mutation{
	{"lost: the record of a reply", func(r *rand.Rand, h *history.History) bool {
		o := some(r, h, func(o *history.Op) bool { return o.Type == history.OK && (o.F == "write" || o.F == "read") })
		for _, t := range h.Ops {
			if t.F == "trail" && t.Key == o.Key {
				t.Names = t.Names[:1]
			}
		}
		return true
	}},
	anOp("doubled: a record", func(_ *history.History, o *history.Op) bool { return o.F == "trail" },
		func(o *history.Op) { o.Names = append(o.Names, o.Names[0]) }),
	{"early: an effect without a record", func(r *rand.Rand, h *history.History) bool {
		o := some(r, h, func(o *history.Op) bool { return o.Type == history.OK && o.F == "write" })
		for _, t := range h.Ops {
			if t.F == "trail" && t.Key == o.Key {
				t.Names = nil
			}
		}
		o.Type, o.Return = history.Info, history.Open
		return true
	}},
}

var realHistories = map[string]struct {
	judge     func(*history.History) Verdict
	mutations []mutation
}{
	"register":  {Register, realRegister},
	"append":    {Append, realLists},
	"set":       {Set, realSet},
	"tokens":    {Tokens, realTokens},
	"once":      {Once, realOnce},
	"authority": {Authority, realAuthority},
	"create":    {Create, realCreate},
	"seal":      {Seal, realSeal},
	"move":      {Move, realMove},
	"quota":     {Quota, realQuota},
	"audit":     {Audit, realAudit},
	"restore":   {Restore, realRestore},
	"members":   {Members, realMembers},
	"watch":     {Watch, watchMutations()},
	"dr":        {DR, pairMutations()},
}

func readReal(t *testing.T, name string) *history.History {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpack, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpack)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRealHistories(t *testing.T) {
	for name, real := range realHistories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if v := real.judge(readReal(t, name)); len(v.Anomalies) > 0 {
				t.Fatalf("the history of a real run is refused: %s", v.Anomalies[0])
			}
			for _, m := range real.mutations {
				applied := 0
				for seed := range int64(realTries) {
					h := readReal(t, name)
					if !m.apply(rand.New(rand.NewSource(seed)), h) {
						continue
					}
					applied++
					if v := real.judge(h); len(v.Anomalies) == 0 {
						t.Errorf("seed %d: mutation %q is accepted", seed, m.name)
					}
				}
				if applied == 0 {
					t.Errorf("mutation %q was never applied", m.name)
				}
			}
		})
	}
}
