package judge

import (
	"fmt"

	"holdfast/jepsen/internal/history"
)

const (
	// First and Second are the clusters of a pair (Text): the second takes the place of the first.
	First  = "first"
	Second = "second"
	// Planned and Forced are the ways how (Text of the operation "failover").
	Planned = "planned"
	Forced  = "forced"
	// Confirmed is the Value of an append that the reply says is on the secondary.
	Confirmed = 1
	// Writes is among the Names of a "role" that takes writes; Diverged among those of a primary whose
	// secondary has another state at one version.
	Writes   = "writes"
	Diverged = "diverged"
)

// DR judges lists (as Append does) on a pair of clusters. Operations on each cluster are strictly
// serializable by themselves. The second begins with what it got of the first: of every list a prefix,
// of all appends those up to one moment, all that were confirmed, and all of them if the failover was
// planned. "role" is what a node says: no epoch (Arg) has two clusters that write.
func DR(h *history.History) (v Verdict) {
	unexpected(&v, h)
	var first, second []*history.Op
	var failover *history.Op
	for _, o := range h.Ops {
		switch {
		case o.F == "failover":
			failover = o
		case o.F != "append" && o.F != "read":
		case o.Text == First:
			first = append(first, o)
		case o.Text == Second:
			second = append(second, o)
		}
	}
	roles(&v, h)
	v.join(Append(&history.History{Ops: first}))
	if failover == nil {
		v.note("no failover")
		return v
	}
	there := elements(second)
	shipped := inherited(&v, failover, first, there)
	prefixes(&v, first, second, shipped)
	var both []*history.Op
	for _, o := range first {
		if o.F == "append" && there[element{o.Key, o.Arg}] != nil {
			both = append(both, o)
		}
	}
	v.join(Append(&history.History{Ops: append(both, second...)}))
	return v
}

type element struct {
	key   string
	value int64
}

// elements that reads saw, each with a read of it.
func elements(ops []*history.Op) map[element]*history.Op {
	seen := map[element]*history.Op{}
	for _, o := range ops {
		if o.F != "read" || o.Type != history.OK {
			continue
		}
		for _, value := range o.Values {
			seen[element{o.Key, value}] = o
		}
	}
	return seen
}

func roles(v *Verdict, h *history.History) {
	writes := map[int64]*history.Op{}
	for _, o := range h.Ops {
		if o.F != "role" || o.Type != history.OK {
			continue
		}
		for _, name := range o.Names {
			switch {
			case name == Diverged:
				v.add("diverged", "a secondary has another state at one version", o)
			case name == Writes && writes[o.Arg] == nil:
				writes[o.Arg] = o
			case name == Writes && writes[o.Arg].Text != o.Text:
				v.add("two writers", fmt.Sprintf("both clusters are primary in epoch %d", o.Arg), writes[o.Arg], o)
			}
		}
	}
}

// inherited: which appends on the first cluster the second has, and whether those may be all.
func inherited(v *Verdict, failover *history.Op, first []*history.Op, there map[element]*history.Op) map[element]bool {
	shipped := map[element]bool{}
	var newest *history.Op // that began last, of those that are there
	for _, o := range first {
		if o.F == "append" && there[element{o.Key, o.Arg}] != nil {
			shipped[element{o.Key, o.Arg}] = true
			if newest == nil || o.Invoke > newest.Invoke {
				newest = o
			}
		}
	}
	lost, confirmed := 0, 0
	for _, o := range first {
		if o.F != "append" || o.Type != history.OK {
			continue
		}
		if o.Value == Confirmed {
			confirmed++
		}
		if failover.Text == Planned && failover.Return < o.Invoke {
			v.add("two writers", "the former primary acknowledged a write after the failover", failover, o)
		}
		if shipped[element{o.Key, o.Arg}] {
			continue
		}
		lost++
		switch {
		case o.Value == Confirmed:
			v.add("lost", fmt.Sprintf("%d of list %s was confirmed and is not on the second cluster", o.Arg, o.Key), o, failover)
		case failover.Text == Planned:
			v.add("lost", fmt.Sprintf("%d of list %s was lost in a planned failover", o.Arg, o.Key), o, failover)
		case newest != nil && o.Before(newest):
			v.add("gap", fmt.Sprintf("%d of list %s is not on the second cluster, which has a later write", o.Arg, o.Key), o, newest)
		}
	}
	v.note("%s failover: %d appends came over, %d were confirmed, %d acknowledged ones were lost", failover.Text,
		len(shipped), confirmed, lost)
	return shipped
}

// prefixes: what the second has of each list is a beginning of what the first had.
func prefixes(v *Verdict, first, second []*history.Op, shipped map[element]bool) {
	longest := longestReads(first)
	for key, o := range longestReads(second) {
		before := longest[key]
		if before == nil {
			continue
		}
		var came []int64
		for i, value := range o.Values {
			if !shipped[element{key, value}] {
				continue
			}
			if len(came) < i {
				v.add("late", fmt.Sprintf("%d of the first cluster is behind an append of the second in list %s", value, key), o)
			}
			came = append(came, value)
		}
		if !isPrefix(came, before.Values) && !isPrefix(before.Values, came) {
			v.add("incompatible order", fmt.Sprintf("list %s on the second cluster does not begin as on the first", key), before, o)
		}
	}
}

func longestReads(ops []*history.Op) map[string]*history.Op {
	longest := map[string]*history.Op{}
	for _, o := range ops {
		if o.F == "read" && o.Type == history.OK && (longest[o.Key] == nil || len(o.Values) > len(longest[o.Key].Values)) {
			longest[o.Key] = o
		}
	}
	return longest
}
