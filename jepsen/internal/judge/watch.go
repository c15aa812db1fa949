package judge

import (
	"fmt"
	"sort"
	"time"

	"holdfast/jepsen/internal/history"
)

const (
	// EveryPolicy is the key of lists of all policies.
	EveryPolicy = "*"
	// EveryToken is a thing of its own, and in no list: the tokens, of which one changes.
	EveryToken = "tokens"
	// Unanswered marks a wait that was over long ago, at the time in Value, on a connection that lived.
	Unanswered = "unanswered"
)

// wakeWithin is how long after a change, and after the faults that may hold the news up, a request
// that waits for the change may take. A request that missed it waits several times as long.
const wakeWithin = int64(5 * time.Second)

// Watch judges things (keys) that one client each changes, and requests that wait for the changes:
//
//   - "set" gives the thing a new value (Arg, unique) and gets the version of the change (Version);
//     "delete" removes the thing, and has no version;
//   - "watch" returns the value (0: there is none) and its index (Version), at once or, with CAS, when
//     the index is above CAS or the wait is over. The index of a value is the version of the change
//     that made it; the index of nothing is at least the version of the deletion;
//   - "list" returns the version of each thing (Names, Values) and the index of all.
//
// An index is never below the one waited for, nor below one that was returned before the request
// began; a result is what the index says; it has every change that was acknowledged before the
// request began; a change ends the waits for it, and a list shows one moment of the state.
func Watch(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	lists := of[EveryPolicy]
	waits := 0
	changes := map[string]*changed{}
	var sets []*history.Op
	for _, key := range keys {
		if key == EveryPolicy {
			continue
		}
		t := newChanged(&v, key, of[key])
		if key != EveryToken {
			changes[key] = t
			sets = append(sets, t.sets...)
		}
		t.order(&v)
		t.results(&v)
		neverBack(&v, key, t.watches)
		waits += t.wakes(&v, h.Faults)
	}
	neverBack(&v, EveryPolicy, lists)
	for _, l := range lists {
		if l.Type == history.OK {
			oneMoment(&v, l, changes)
		}
	}
	listWakes(&v, h.Faults, lists, sets)
	for _, o := range h.Ops {
		if o.Text == Unanswered && o.Value > lastFault(h.Faults, 0, o.Value)+wakeWithin {
			v.add("unanswered", "a wait was over long ago and there was no answer", o)
		}
	}
	v.note("%d things, %d changes, %d waits that a change ended, %d lists", len(keys), len(sets), waits, len(lists))
	return v
}

// changed is what is known of one thing.
type changed struct {
	key          string
	sets, gone   []*history.Op
	watches      []*history.Op         // watches with a result, by their invocation
	at           map[int64]int64       // value of each version
	seenFirst    map[int64]*history.Op // of each version, the operation that told it first
	versionOfArg map[int64]int64
	setOfArg     map[int64]*history.Op
}

func newChanged(v *Verdict, key string, ops []*history.Op) *changed {
	t := &changed{key: key, at: map[int64]int64{}, seenFirst: map[int64]*history.Op{},
		versionOfArg: map[int64]int64{}, setOfArg: map[int64]*history.Op{}}
	for _, o := range ops {
		switch {
		case o.F == "set":
			t.setOfArg[o.Arg] = o
			t.sets = append(t.sets, o)
			if o.Type == history.OK {
				t.learn(v, o, o.Version, o.Arg)
			}
		case o.F == "delete" && o.Type != history.Fail:
			t.gone = append(t.gone, o)
		}
	}
	for _, o := range ops {
		if o.F != "watch" || o.Type != history.OK {
			continue
		}
		t.watches = append(t.watches, o)
		if o.Value == 0 {
			continue
		}
		s := t.setOfArg[o.Value]
		switch {
		case s == nil:
			v.add("phantom", fmt.Sprintf("nobody gave %s the value %d", key, o.Value), o)
			continue
		case s.Type == history.Fail:
			v.add("phantom", fmt.Sprintf("value %d of %s was refused", o.Value, key), s, o)
		case o.Return < s.Invoke:
			v.add("early", fmt.Sprintf("value %d of %s was seen before it was written", o.Value, key), o, s)
		}
		t.learn(v, o, o.Version, o.Value)
	}
	return t
}

// learn that a version is the change to this value: one value has one version, and the other way
// round.
func (t *changed) learn(v *Verdict, o *history.Op, version, value int64) {
	first := t.seenFirst[version]
	if first != nil && t.at[version] != value {
		v.add("two values", fmt.Sprintf("version %d of %s has two values", version, t.key), first, o)
	}
	if known := t.versionOfArg[value]; known != 0 && known != version {
		v.add("two versions", fmt.Sprintf("value %d of %s has two versions", value, t.key), t.seenFirst[known], o)
	}
	if first == nil || o.Return < first.Return {
		t.seenFirst[version] = o
	}
	t.at[version], t.versionOfArg[value] = value, version
}

// order: the versions of changes follow real time.
func (t *changed) order(v *Verdict) {
	var highest *history.Op // of those that have returned
	ends := append([]*history.Op(nil), t.sets...)
	sort.SliceStable(ends, func(i, j int) bool { return ends[i].Return < ends[j].Return })
	next := 0
	for _, o := range t.sets {
		for next < len(ends) && ends[next].Before(o) {
			if e := ends[next]; e.Type == history.OK && (highest == nil || e.Version > highest.Version) {
				highest = e
			}
			next++
		}
		if o.Type == history.OK && highest != nil && o.Version <= highest.Version {
			v.add("version back", fmt.Sprintf("a later change of %s has no higher version", t.key), highest, o)
		}
	}
}

// results have every change that was acknowledged before they were asked for.
func (t *changed) results(v *Verdict) {
	for _, o := range t.watches {
		if o.CAS != nil && o.Version < *o.CAS {
			v.add("index back", fmt.Sprintf("%s: the index is below the one waited for", t.key), o)
		}
		for _, s := range t.sets {
			if s.Type != history.OK || !s.Before(o) {
				continue
			}
			if s.Version > o.Version {
				v.add("stale", fmt.Sprintf("%s has an older index than a change that was acknowledged before", t.key), s, o)
				break
			}
			if o.Value == 0 && !t.mayBeGone(s, o) {
				v.add("lost", fmt.Sprintf("%s is not there, and nobody deleted it", t.key), s, o)
				break
			}
		}
		if o.Value == 0 {
			continue
		}
		if d := t.goneBetween(o.Version, o.Invoke); d != nil {
			v.add("stale", fmt.Sprintf("%s shows what was deleted", t.key), d, o)
		}
	}
}

// mayBeGone says whether a deletion may have come after the change and before the result.
func (t *changed) mayBeGone(s, result *history.Op) bool {
	for _, d := range t.gone {
		if d.Return > s.Invoke && d.Invoke < result.Return {
			return true
		}
	}
	return false
}

// goneBetween is a deletion that certainly came after this version, and returned before `until`.
func (t *changed) goneBetween(version, until int64) *history.Op {
	first := t.seenFirst[version]
	for _, d := range t.gone {
		if d.Type == history.OK && d.Return < until && first != nil && first.Before(d) {
			return d
		}
	}
	return nil
}

// neverBack: no index is below one that was returned before the request began.
func neverBack(v *Verdict, key string, results []*history.Op) {
	var ends []*history.Op
	for _, o := range results {
		if o.Type == history.OK {
			ends = append(ends, o)
		}
	}
	starts := append([]*history.Op(nil), ends...)
	sort.SliceStable(ends, func(i, j int) bool { return ends[i].Return < ends[j].Return })
	sort.SliceStable(starts, func(i, j int) bool { return starts[i].Invoke < starts[j].Invoke })
	var highest *history.Op
	next := 0
	for _, o := range starts {
		for next < len(ends) && ends[next].Before(o) {
			if e := ends[next]; highest == nil || e.Version > highest.Version {
				highest = e
			}
			next++
		}
		if highest != nil && o.Version < highest.Version {
			v.add("index back", fmt.Sprintf("the index of %s is below one that was returned before", key), highest, o)
			return
		}
		if o.CAS != nil && o.Version < *o.CAS {
			v.add("index back", fmt.Sprintf("the index of %s is below the one waited for", key), o)
			return
		}
	}
}

// lastFault is the end of the last fault that overlaps the time, else its beginning.
func lastFault(faults []history.Fault, from, to int64) int64 {
	last := from
	for _, f := range faults {
		if f.Start < to && f.End > last {
			last = min(f.End, to)
		}
	}
	return last
}

// wakes: a change ends the waits for it.
func (t *changed) wakes(v *Verdict, faults []history.Fault) (count int) {
	for _, o := range t.watches {
		if o.CAS == nil {
			continue
		}
		if o.Version > *o.CAS {
			count++
		}
		change := firstAfter(t.sets, *o.CAS)
		if _, there := t.at[*o.CAS]; there {
			for _, d := range t.gone {
				if d.Type == history.OK && t.seenFirst[*o.CAS].Before(d) && (change == nil || d.Return < change.Return) {
					change = d
				}
			}
		}
		late(v, faults, t.key, change, o)
	}
	return count
}

// firstAfter is the change above this version that was acknowledged first.
func firstAfter(sets []*history.Op, version int64) (first *history.Op) {
	for _, s := range sets {
		if s.Type == history.OK && s.Version > version && (first == nil || s.Return < first.Return) {
			first = s
		}
	}
	return first
}

func late(v *Verdict, faults []history.Fault, key string, change, o *history.Op) {
	if change == nil || change.Return > o.Return {
		return
	}
	due := lastFault(faults, max(change.Return, o.Invoke), o.Return) + wakeWithin
	if o.Return > due {
		v.add("not woken", fmt.Sprintf("a request that waited for %s was answered %v after the change", key,
			time.Duration(o.Return-max(change.Return, o.Invoke))), change, o)
	}
}

func listWakes(v *Verdict, faults []history.Fault, lists, sets []*history.Op) {
	for _, l := range lists {
		if l.Type != history.OK || l.CAS == nil {
			continue
		}
		late(v, faults, EveryPolicy, firstAfter(sets, *l.CAS), l)
	}
}

// oneMoment: the list has of each thing the last version up to its index.
func oneMoment(v *Verdict, l *history.Op, changes map[string]*changed) {
	shown := map[string]int64{}
	for i, name := range l.Names {
		shown[name] = l.Values[i]
		if l.Values[i] > l.Version {
			v.add("index low", fmt.Sprintf("%s is newer than the index of the list", name), l)
		}
		if changes[name] == nil {
			v.add("phantom", fmt.Sprintf("nobody made %s", name), l)
		}
	}
	for _, name := range sortedNames(changes) {
		t := changes[name]
		for _, s := range t.sets {
			if s.Type != history.OK {
				continue
			}
			have, there := shown[name]
			switch {
			case s.Before(l) && s.Version > l.Version:
				v.add("stale", fmt.Sprintf("the list lacks a change of %s that was acknowledged before", name), s, l)
			case s.Version > l.Version:
			case there && have < s.Version:
				v.add("torn", fmt.Sprintf("the list shows %s as before its index", name), s, l)
			case !there && !t.mayBeGone(s, l):
				v.add("torn", fmt.Sprintf("the list lacks %s, and nobody deleted it", name), s, l)
			default:
				continue
			}
			if len(v.Anomalies) > 20 {
				return
			}
		}
		if have, there := shown[name]; there {
			if d := t.goneBetween(have, l.Invoke); d != nil {
				v.add("stale", fmt.Sprintf("the list shows %s, which was deleted", name), d, l)
			}
		}
	}
}

func sortedNames(changes map[string]*changed) (names []string) {
	for name := range changes {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
