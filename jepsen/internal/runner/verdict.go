package runner

import (
	"time"

	"holdfast/jepsen/internal/cluster"
	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
	"holdfast/jepsen/internal/workload"
)

const (
	overlapLeast  = 0.2
	overlapWanted = 0.4 // below that, faults follow each other sooner
	backWithin    = 5 * cluster.Election
	electionAfter = 5 * time.Second // of a fault, an election may follow from it
)

// overlaps says whether an operation was under way during a fault.
func overlaps(o *history.Op, faults []history.Fault) bool {
	for _, f := range faults {
		ended := o.Return >= f.Start
		if o.Type == history.Info { // its end is unknown: only its beginning counts
			ended = o.Invoke >= f.Start
		}
		if o.Invoke <= f.End && ended {
			return true
		}
	}
	return false
}

func (r *run) quiet() bool { return len(r.nemeses) == 1 && r.nemeses[0].Name == "none" }

// share of the operations that may have taken effect that overlap a fault, of those that began before the
// last fault was over; and how many of all have a known outcome.
func share(h *history.History) (good int, during float64) {
	last := int64(0)
	for _, f := range h.Faults {
		if f.Fault != workload.MemberFault { // clients go on with that
			last = max(last, f.End)
		}
	}
	before, count := 0, 0
	for _, o := range h.Ops {
		if o.Type == history.Fail || o.Final {
			continue
		}
		if o.Type == history.OK {
			good++
		}
		if o.Invoke <= last {
			before++
			if overlaps(o, h.Faults) {
				count++
			}
		}
	}
	return good, float64(count) / float64(max(before, 1))
}

func (r *run) least() float64 { return r.work.Least * float64(r.plan.Seconds) }

func (r *run) lacks(h *history.History) []string {
	if r.work.Lacks == nil {
		return nil
	}
	return r.work.Lacks(h)
}

func (r *run) overlap() float64 {
	_, during := share(r.env.Record.History())
	return during
}

// meant says whether enough has happened so far.
func (r *run) meant() bool {
	h := r.env.Record.History()
	good, during := share(h)
	return r.quiet() || (float64(good) >= r.least() && during >= overlapLeast && len(r.lacks(h)) == 0)
}

// enough happened for the run to mean anything.
func (r *run) enough(h *history.History) {
	good, during := share(h)
	r.result.Operations, r.result.Faults, r.result.Elections = len(h.Ops), len(h.Faults), len(r.watch.elections)
	r.result.Overlap = during
	if float64(good) < r.least() {
		r.find("too few operations: %d have a known outcome, %.0f are needed", good, r.least())
	}
	for _, what := range r.lacks(h) {
		r.find("too little happened: %s", what)
	}
	if r.quiet() {
		return
	}
	if len(h.Faults) == 0 {
		r.find("there was no fault")
	} else if during < overlapLeast {
		r.find("too few operations overlap a fault: %.0f %%", 100*during)
	}
	for name := range r.harmed {
		if !r.movedDuring(h, name) {
			r.find("%s did not move leadership", name)
		}
	}
}

func (r *run) movedDuring(h *history.History, name string) bool {
	for _, f := range h.Faults {
		for _, at := range r.watch.elections {
			if f.Fault == name && at >= f.Start && at <= f.End+int64(electionAfter) {
				return true
			}
		}
	}
	return false
}

// service: writes come back soon after each fault, and no leader changes without one.
func (r *run) service(h *history.History) {
	longest := int64(0)
	for _, f := range h.Faults {
		gap := r.probe.longestGap(f.Start, min(f.End+int64(backWithin), r.lastProbe()))
		longest = max(longest, gap)
		if r.work.Opens {
			continue // clients seal the nodes
		}
		r.comesBack(h, f)
	}
	r.result.LongestGap = time.Duration(longest).Round(time.Millisecond).String()
	for _, at := range r.watch.elections {
		if !r.work.Opens && !r.explained(h, at) && (r.lastBegan == 0 || at < r.lastBegan) {
			r.find("a leader changed without a fault, %.1f s into the run", float64(at)/1e9)
		}
	}
	if stalled := r.watch.stalled(0, history.Open); stalled > 0 {
		r.note("the machine stood still for %v in all", time.Duration(stalled).Round(time.Millisecond))
	}
}

func (r *run) lastProbe() int64 {
	if n := len(r.probe.good); n > 0 {
		return r.probe.good[n-1].back
	}
	return 0
}

func (r *run) comesBack(h *history.History, f history.Fault) {
	back := r.probe.firstAfter(f.Undone)
	allowed := f.Undone + int64(backWithin)
	allowed += 2 * r.watch.stalled(f.Undone, allowed)
	if back <= allowed || f.Undone > r.stopped {
		return
	}
	for _, other := range h.Faults {
		if other != f && other.End > f.Undone && other.Start < allowed {
			return // another fault came too soon
		}
	}
	if back == history.Open {
		r.find("no write was acknowledged after %q ended", f.What)
		return
	}
	r.find("the first write after %q was acknowledged after %v; %v are allowed", f.What,
		time.Duration(back-f.Undone).Round(time.Millisecond), time.Duration(allowed-f.Undone))
}

// explained says whether a fault or a stall of the machine came just before this time.
func (r *run) explained(h *history.History, at int64) bool {
	for _, f := range h.Faults {
		if at >= f.Start && at <= f.End+int64(electionAfter) {
			return true
		}
	}
	return r.watch.stalled(at-int64(2*time.Second), at) > 0
}

// behindFront counts the errors that clients saw through the load balancer. Where nodes end in order, a
// client that repeats a request once sees none (deploy/README.md).
func (r *run) behindFront(h *history.History) {
	if r.plan.Front != "haproxy" {
		return
	}
	orderly := true
	for _, n := range r.nemeses {
		orderly = orderly && n.Orderly
	}
	errors, twice, last := 0, 0, map[int]*history.Op{} // last: the operation before, of each client
	for _, o := range h.Ops {
		if o.Final {
			continue
		}
		before := last[o.Process]
		last[o.Process] = o
		if o.Type != history.Info {
			continue
		}
		errors++
		if before == nil || before.Type != history.Info || !judge.Lost(o) || !judge.Lost(before) {
			continue
		}
		twice++
		if orderly {
			r.find("a client lost two replies in a row while nodes ended in order:\n    %s\n    %s", before, o)
		}
	}
	r.note("%d requests without a known outcome behind HAProxy, %d of them lost twice in a row", errors, twice)
}
