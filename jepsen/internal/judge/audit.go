package judge

import (
	"fmt"
	"strings"
	"time"

	"holdfast/jepsen/internal/history"
)

// Audit judges requests, each of a path (key) of its own: "write" and "read". After the faults, "trail"
// tells what one node has recorded of a path (Names: the type of each record and the id of its
// request), and "list" tells which writes have taken effect (Names).
//
//   - what was acknowledged has the records of one request: the request and the reply;
//   - what has taken effect has the record of the request, also if the reply was lost;
//   - no node has a record twice;
//   - a request that was answered at once is recorded by one node: no node has given it up before. Not where a
//     device may fail: a node gives the request to another one then, and may have recorded it in part;
//   - where nodes only ended in order, the reply of every request that was recorded with its reply has
//     arrived: a node answers what it has begun.
func Audit(h *history.History) (v Verdict) {
	unexpected(&v, h)
	trails := map[string][]*history.Op{}
	for _, o := range h.Ops {
		if o.F == "trail" {
			trails[o.Key] = append(trails[o.Key], o)
			recordedTwice(&v, o)
		}
	}
	effect := map[string]*history.Op{}
	for _, o := range h.Ops {
		if o.F == "list" && o.Type == history.OK {
			for _, name := range o.Names {
				effect[name] = o
			}
		}
	}
	acknowledged, quick := 0, 0
	orderly, sound := endedInOrder(h), !devicesMayFail(h)
	for _, o := range h.Ops {
		if o.F != "write" && o.F != "read" {
			continue
		}
		requests, both := recordsOf(trails[o.Key])
		switch {
		case o.Type == history.OK && !both:
			v.add("acknowledged without both records", o.Key, append([]*history.Op{o}, trails[o.Key]...)...)
		case effect[o.Key] != nil && requests == 0:
			v.add("effect without a record", o.Key, o)
		case both && orderly && Lost(o):
			v.add("cut off", "the node has recorded the reply of "+o.Key, append([]*history.Op{o}, trails[o.Key]...)...)
		case o.Type == history.OK && requests > 1 && sound && atOnce(o):
			v.add("recorded as several requests", o.Key, append([]*history.Op{o}, trails[o.Key]...)...)
		}
		if o.Type == history.OK {
			acknowledged++
			if atOnce(o) {
				quick++
			}
		}
	}
	v.note("%d acknowledged requests, %d of them at once", acknowledged, quick)
	return v
}

func recordedTwice(v *Verdict, trail *history.Op) {
	seen := map[string]bool{}
	for _, name := range trail.Names {
		if seen[name] {
			v.add("recorded twice", fmt.Sprintf("%s of %s", name, trail.Key), trail)
			return
		}
		seen[name] = true
	}
}

// recordsOf a path: how many requests the trails name, and whether one of them has its reply there.
func recordsOf(trails []*history.Op) (requests int, both bool) {
	for _, t := range trails {
		replies := map[string]bool{}
		for _, name := range t.Names {
			if id, is := strings.CutPrefix(name, "response "); is {
				replies[id] = true
			}
		}
		for _, name := range t.Names {
			if id, is := strings.CutPrefix(name, "request "); is {
				requests++
				both = both || replies[id]
			}
		}
	}
	return requests, both
}

// triedAgain is the pause of a node before it tries a request again (PIPE_WAIT_MS).
const triedAgain = 20 * time.Millisecond

// atOnce says whether the request was answered sooner than a second try could be.
func atOnce(o *history.Op) bool { return o.Return-o.Invoke < int64(triedAgain) }

// Lost says whether the connection of a request ended before its reply came.
func Lost(o *history.Op) bool {
	return o.Type == history.Info && o.Status == 0 && !strings.Contains(o.Error, "timeout")
}

// endedInOrder says whether there were no other faults than nodes that ended in order.
func endedInOrder(h *history.History) bool {
	for _, f := range h.Faults {
		if f.Fault != "stop" && f.Fault != "roll" && f.Fault != "drain" {
			return false
		}
	}
	return true
}

// devicesMayFail says whether a fault may have kept an audit device of a node from taking a record.
func devicesMayFail(h *history.History) bool {
	for _, f := range h.Faults {
		switch f.Fault {
		case "audit-full", "audit-hang", "slow", "eio", "enospc", "torn", "full", "nth-call", "memory", "fds":
			return true
		}
	}
	return false
}
