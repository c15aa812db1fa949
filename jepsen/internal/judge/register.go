package judge

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"holdfast/jepsen/internal/history"
)

// Patience with one key; a judge that does not decide in this time fails the run.
const Patience = 60 * time.Second

// Register judges each key as a linearizable register: operations write (Arg), delete, and read
// (Value, 0 where there is none). Keys that begin with "v2/" have versions: write, patch (both with
// CAS or without; ok tells the Version), read (Version, Value), readv (Arg is the version that was
// asked for), versions (Version is the newest, Arg how many up to it are listed), delete, undelete and
// destroy (Arg is the version). A write that is refused because of its CAS is ok with Version 0.
func Register(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	for _, key := range keys {
		v.join(registerKey(key, of[key]))
	}
	v.note("%d keys", len(keys))
	return v
}

const versionedPrefix = "v2/"

func registerKey(key string, ops []*history.Op) (v Verdict) {
	model := plainModel()
	if len(key) > len(versionedPrefix) && key[:len(versionedPrefix)] == versionedPrefix {
		model = versionedModel()
		versionsOnce(&v, ops)
		ops = withoutUnseen(ops)
	} else {
		ops = withoutUnread(ops)
	}
	events := make([]porcupine.Operation, 0, len(ops))
	for _, o := range ops {
		events = append(events, porcupine.Operation{ClientId: o.Process, Input: o, Output: o, Call: o.Invoke, Return: o.Return})
	}
	result, info := porcupine.CheckOperationsVerbose(model, events, Patience)
	if result == porcupine.Ok {
		return v
	}
	v.Pictures = map[string]func(string) error{
		"linearizability-" + flat(key): func(file string) error { return porcupine.VisualizePath(model, info, file) },
	}
	if result == porcupine.Unknown {
		v.add("undecided", fmt.Sprintf("key %s with %d operations after %v", key, len(ops), Patience))
		return v
	}
	v.add("not linearizable", fmt.Sprintf("key %s, the fewest operations that contradict each other:", key),
		shortest(model, events)...)
	return v
}

func flat(key string) string {
	out := []byte(key)
	for i, b := range out {
		if b == '/' {
			out[i] = '-'
		}
	}
	return string(out)
}

// effective says whether an operation belongs into the judgement: reads without an answer say
// nothing, and what failed never happened.
func effective(o *history.Op) bool {
	return o.Type == history.OK || (o.Type == history.Info && !isRead(o))
}

func isRead(o *history.Op) bool { return o.F == "read" || o.F == "readv" || o.F == "versions" }

// withoutUnread leaves out writes without a known outcome whose value nobody has read: they may
// as well take effect after everything else.
func withoutUnread(ops []*history.Op) (kept []*history.Op) {
	read := map[int64]bool{}
	for _, o := range ops {
		if o.F == "read" && o.Type == history.OK {
			read[o.Value] = true
		}
	}
	for _, o := range ops {
		unread := o.Type == history.Info && o.F == "write" && !read[o.Arg]
		if effective(o) && !unread {
			kept = append(kept, o)
		}
	}
	return kept
}

// withoutUnseen leaves out writes with CAS without a known outcome that may as well be refused or
// come after everything else: the version that one would make holds another value; or no answer tells
// of that version, and no deletion can have met it.
func withoutUnseen(ops []*history.Op) (kept []*history.Op) {
	newest := int64(0)
	holds := map[int64]int64{} // version: its value, as far as any answer tells
	lastDelete := int64(-1)
	for _, o := range ops {
		isWrite := o.F == "write" || o.F == "patch"
		switch {
		case o.F == "delete" && o.Type != history.Fail:
			lastDelete = max(lastDelete, o.Return)
		case o.Type != history.OK:
		case isWrite && o.Version == 0 && o.CAS != nil:
			newest = max(newest, *o.CAS+1) // there may have been a version that refused it
		case isWrite:
			holds[o.Version] = o.Arg
		case (o.F == "read" || o.F == "readv") && o.Value != 0:
			holds[o.Version] = o.Value
		}
		if o.Type == history.OK {
			newest = max(newest, o.Version)
		}
	}
	for _, o := range ops {
		if !effective(o) {
			continue
		}
		if o.Type == history.Info && (o.F == "write" || o.F == "patch") && o.CAS != nil {
			made := *o.CAS + 1
			other, known := holds[made]
			if (known && other != o.Arg) || (made > newest && lastDelete < o.Invoke) {
				continue
			}
		}
		kept = append(kept, o)
	}
	return kept
}

// versionsOnce checks that no version was given to two writes.
func versionsOnce(v *Verdict, ops []*history.Op) {
	given := map[int64]*history.Op{}
	for _, o := range ops {
		if (o.F != "write" && o.F != "patch") || o.Type != history.OK || o.Version == 0 {
			continue
		}
		if first := given[o.Version]; first != nil {
			v.add("version given twice", fmt.Sprintf("version %d of %s", o.Version, o.Key), first, o)
		}
		given[o.Version] = o
	}
}

func plainModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			o := input.(*history.Op)
			switch o.F {
			case "write":
				return true, o.Arg
			case "delete":
				return true, int64(0)
			}
			return o.Value == state.(int64), state
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

func describe(input, _ any) string {
	o := input.(*history.Op)
	switch o.F {
	case "write", "patch":
		if o.CAS != nil {
			return fmt.Sprintf("%s %d after %d -> %d %s", o.F, o.Arg, *o.CAS, o.Version, o.Type)
		}
		return fmt.Sprintf("%s %d %s", o.F, o.Arg, o.Type)
	case "read", "readv":
		return fmt.Sprintf("%s -> %d (version %d)", o.F, o.Value, o.Version)
	case "versions":
		return fmt.Sprintf("versions -> %d of %d", o.Arg, o.Version)
	}
	return fmt.Sprintf("%s %d %s", o.F, o.Arg, o.Type)
}

// The state of a key with versions: nine bytes a version, its value and whether it is gone.
const (
	versionBytes = 9
	deleted      = 1
	destroyed    = 2
)

func valueOf(state string, version int64) (value int64, gone byte) {
	at := state[(version-1)*versionBytes:]
	return int64(binary.BigEndian.Uint64([]byte(at[:8]))), at[8]
}

func withVersion(state string, value int64) string {
	return state + string(binary.BigEndian.AppendUint64(nil, uint64(value))) + "\x00"
}

func withGone(state string, version int64, set, clear byte) string {
	if version < 1 || version > int64(len(state))/versionBytes {
		return state
	}
	out := []byte(state)
	at := version*versionBytes - 1
	out[at] = out[at]&^clear | set
	return string(out)
}

func stepWrite(state string, newest int64, o *history.Op) (bool, any) {
	fits := o.CAS == nil || *o.CAS == newest
	if o.F == "patch" && newest > 0 {
		_, gone := valueOf(state, newest)
		fits = fits && gone == 0
	}
	fits = fits && (o.F != "patch" || newest > 0)
	refused := o.Type == history.OK && o.Version == 0
	if refused || !fits {
		return refused != fits || o.Type == history.Info, state
	}
	return o.Type == history.Info || o.Version == newest+1, withVersion(state, o.Arg)
}

func stepRead(state string, newest int64, o *history.Op) bool {
	version := newest
	switch o.F {
	case "versions": // without gap
		return o.Version == newest && o.Arg == newest
	case "readv":
		version = o.Arg
	}
	if version > newest || newest == 0 {
		return o.Version == 0 && o.Value == 0
	}
	value, gone := valueOf(state, version)
	if gone != 0 {
		value = 0
	}
	return o.Version == version && o.Value == value
}

func versionedModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(string), input.(*history.Op)
			newest := int64(len(s)) / versionBytes
			switch o.F {
			case "write", "patch":
				return stepWrite(s, newest, o)
			case "delete":
				return true, withGone(s, newest, deleted, 0)
			case "undelete":
				return true, withGone(s, o.Arg, 0, deleted)
			case "destroy":
				return true, withGone(s, o.Arg, destroyed, 0)
			}
			return stepRead(s, newest, o), s
		},
		DescribeOperation: describe,
		DescribeState: func(state any) string {
			s := state.(string)
			newest := int64(len(s)) / versionBytes
			if newest == 0 {
				return "none"
			}
			value, gone := valueOf(s, newest)
			return fmt.Sprintf("version %d: %d, gone %d", newest, value, gone)
		},
	}
}

// shortest leaves out operations as long as what remains is still not linearizable. Only reads and
// operations at the end can be left out without making a right history wrong; so the end is cut
// first, then each read is tried.
func shortest(model porcupine.Model, events []porcupine.Operation) (ops []*history.Op) {
	illegal := func(some []porcupine.Operation) bool {
		return porcupine.CheckOperationsTimeout(model, some, 2*time.Second) == porcupine.Illegal
	}
	deadline := time.Now().Add(20 * time.Second)
	low, high := 0, len(events) // the first `high` are illegal
	for low+1 < high && time.Now().Before(deadline) {
		middle := (low + high) / 2
		if illegal(cutAfter(events, middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	events = cutAfter(events, high)
	for i := 0; i < len(events) && time.Now().Before(deadline); {
		o := events[i].Input.(*history.Op)
		less := append(append([]porcupine.Operation(nil), events[:i]...), events[i+1:]...)
		if isRead(o) && illegal(less) {
			events = less
		} else {
			i++
		}
	}
	for _, e := range events {
		ops = append(ops, e.Input.(*history.Op))
	}
	return ops
}

// cutAfter keeps the first operations as they were invoked. What had not returned by then stays
// open, and reads that had not are left out.
func cutAfter(events []porcupine.Operation, count int) (kept []porcupine.Operation) {
	if count >= len(events) {
		return events
	}
	end := events[count].Call
	for _, e := range events[:count] {
		o := e.Input.(*history.Op)
		if e.Return >= end && isRead(o) {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
