package judge

import (
	"fmt"
	"sort"

	"holdfast/jepsen/internal/history"
)

// Set judges folders (keys) to which names are added (Text, each once) and which are listed (Names):
// what was added before a list began is in it, what nobody began to add before its end is not; of
// any two lists one contains the other, the later one the earlier. A "walk" is a list that was made
// of pages, one after the other: the pages show different times, so a walk is compared with no list.
func Set(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	lists := 0
	for _, key := range keys {
		lists += setKey(&v, key, of[key])
	}
	v.note("%d folders, %d lists", len(keys), lists)
	return v
}

func setKey(v *Verdict, key string, ops []*history.Op) int {
	added := map[string]*history.Op{}
	var lists, walks, adds []*history.Op
	for _, o := range ops {
		switch {
		case o.F == "add":
			added[o.Text] = o
			adds = append(adds, o)
		case o.F == "list" && o.Type == history.OK:
			lists = append(lists, o)
		case o.F == "walk" && o.Type == history.OK:
			walks = append(walks, o)
		}
	}
	in := map[*history.Op]map[string]bool{}
	for _, l := range append(walks, lists...) {
		in[l] = members(v, key, l, added)
	}
	sort.SliceStable(lists, func(i, j int) bool { return len(lists[i].Names) < len(lists[j].Names) })
	for i := 1; i < len(lists); i++ {
		contains(v, lists[i-1], lists[i], in[lists[i]])
	}
	missing(v, append(walks, lists...), adds, in)
	backwards(v, lists)
	return len(lists) + len(walks)
}

func members(v *Verdict, key string, l *history.Op, added map[string]*history.Op) map[string]bool {
	names := map[string]bool{}
	for _, name := range l.Names {
		a := added[name]
		switch {
		case names[name]:
			v.add("doubled", fmt.Sprintf("%s is twice in a list of %s", name, key), l)
		case a == nil:
			v.add("phantom", fmt.Sprintf("%s in a list of %s was never added", name, key), l)
		case a.Type == history.Fail:
			v.add("phantom", fmt.Sprintf("%s in a list of %s was refused", name, key), a, l)
		case l.Before(a):
			v.add("early", fmt.Sprintf("%s was listed before its addition began", name), l, a)
		}
		names[name] = true
	}
	return names
}

func contains(v *Verdict, small, large *history.Op, names map[string]bool) {
	for _, name := range small.Names {
		if !names[name] {
			v.add("incomparable", fmt.Sprintf("%s is in the shorter of two lists alone", name), small, large)
			return
		}
	}
}

// missing: of each addition the first list that began after its end and lacks it.
func missing(v *Verdict, lists, adds []*history.Op, in map[*history.Op]map[string]bool) {
	for _, a := range adds {
		if a.Type != history.OK {
			continue
		}
		for _, l := range lists {
			if a.Before(l) && !in[l][a.Text] {
				v.add("lost", fmt.Sprintf("%s was added and is not in a later list", a.Text), a, l)
				break
			}
		}
	}
}

// backwards: a list that began after the end of a longer one. The lists are in the order of length.
func backwards(v *Verdict, lists []*history.Op) {
	if len(lists) == 0 {
		return
	}
	var earliest *history.Op // to end, of those that are longer
	for i := len(lists) - 1; i >= 0; {
		first := i
		for first > 0 && len(lists[first-1].Names) == len(lists[i].Names) {
			first--
		}
		for n := first; n <= i; n++ {
			if earliest != nil && earliest.Before(lists[n]) {
				v.add("stale", "a list is shorter than one that ended before it began", earliest, lists[n])
				return
			}
		}
		for n := first; n <= i; n++ {
			if earliest == nil || lists[n].Return < earliest.Return {
				earliest = lists[n]
			}
		}
		i = first - 1
	}
}
