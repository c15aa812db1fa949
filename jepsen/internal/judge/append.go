package judge

import (
	"fmt"
	"sort"

	"holdfast/jepsen/internal/history"
)

// Append judges lists to which operations append (Arg, unique in its key) and which they read
// (Values). Each operation is atomic and touches one key, so the only right histories are those that
// one order explains which keeps real time, over all keys together. The order of each list is in the
// reads; from it follow edges between operations (as in Elle), and a cycle of them is a
// contradiction.
func Append(h *history.History) (v Verdict) {
	unexpected(&v, h)
	ops := appendOps(&v, h.Ops)
	if len(v.Anomalies) > 0 {
		return v // the order of a list is in doubt, so edges would be guesses
	}
	g := newGraph(ops)
	keys, of := byKey(ops)
	for _, key := range keys {
		g.addKey(of[key])
	}
	g.addTime()
	for _, cycle := range g.cycles() {
		class, text := g.classify(cycle)
		v.add(class, text, g.opsOf(cycle)...)
	}
	v.note("%d lists, %d operations in the graph", len(keys), len(ops))
	return v
}

// appendOps checks what one list tells by itself, and leaves out operations without an effect.
func appendOps(v *Verdict, all []*history.Op) (ops []*history.Op) {
	keys, of := byKey(all)
	for _, key := range keys {
		ops = append(ops, listOps(v, key, of[key])...)
	}
	return ops
}

func listOps(v *Verdict, key string, all []*history.Op) (ops []*history.Op) {
	var longest *history.Op
	by := map[int64]*history.Op{}
	for _, o := range all {
		switch {
		case o.F == "append":
			by[o.Arg] = o
		case o.F == "read" && o.Type == history.OK && (longest == nil || len(o.Values) > len(longest.Values)):
			longest = o
		}
	}
	var order []int64
	if longest != nil {
		order = longest.Values
	}
	position := map[int64]int{}
	for i, value := range order {
		if _, twice := position[value]; twice {
			v.add("doubled", fmt.Sprintf("%d is twice in list %s", value, key), longest)
		}
		position[value] = i
		switch o := by[value]; {
		case o == nil:
			v.add("phantom", fmt.Sprintf("%d in list %s was never appended", value, key), longest)
		case o.Type == history.Fail:
			v.add("G1a", fmt.Sprintf("%d in list %s was refused when it was appended", value, key), o, longest)
		}
	}
	for _, o := range all {
		switch {
		case o.F == "read" && o.Type == history.OK:
			if !isPrefix(o.Values, order) {
				v.add("incompatible order", fmt.Sprintf("two reads of list %s do not extend each other", key), o, longest)
			}
			ops = append(ops, o)
		case o.F == "append":
			_, seen := position[o.Arg]
			if o.Type == history.OK && !seen && longest != nil && o.Before(longest) {
				v.add("lost", fmt.Sprintf("%d was appended to list %s and is not in a later read", o.Arg, key), o, longest)
			}
			if o.Type == history.OK || (seen && o.Type == history.Info) {
				ops = append(ops, o)
			}
		}
	}
	return ops
}

func isPrefix(some, all []int64) bool {
	if len(some) > len(all) {
		return false
	}
	for i, value := range some {
		if all[i] != value {
			return false
		}
	}
	return true
}

type edgeKind int

const (
	ww   edgeKind = iota // appended after
	wr                   // read what was appended
	rw                   // read before it was appended
	real                 // began after the end
)

func (k edgeKind) String() string { return [...]string{"ww", "wr", "rw", "time"}[k] }

type edge struct {
	to   int
	kind edgeKind
}

// graph: nodes are operations, and behind them one moment for each return, in their order. An
// operation leads to the moment of its return, each moment to the next one, and the last moment
// before an invocation to that operation: so few edges tell all of real time.
type graph struct {
	ops   []*history.Op
	edges [][]edge
	index map[*history.Op]int
}

func newGraph(ops []*history.Op) *graph {
	g := &graph{ops: ops, edges: make([][]edge, len(ops)), index: map[*history.Op]int{}}
	for i, o := range ops {
		g.index[o] = i
	}
	return g
}

func (g *graph) link(from, to *history.Op, kind edgeKind) {
	if from != to && from != nil && to != nil {
		i := g.index[from]
		g.edges[i] = append(g.edges[i], edge{g.index[to], kind})
	}
}

// addKey adds the edges of one list. Appends that were acknowledged and never seen come after the
// longest read.
func (g *graph) addKey(ops []*history.Op) {
	var order []*history.Op
	by := map[int64]*history.Op{}
	longest := []int64{}
	for _, o := range ops {
		if o.F == "append" {
			by[o.Arg] = o
		} else if len(o.Values) > len(longest) {
			longest = o.Values
		}
	}
	seen := map[int64]bool{}
	for _, value := range longest {
		order = append(order, by[value])
		seen[value] = true
	}
	for i := 1; i < len(order); i++ {
		g.link(order[i-1], order[i], ww)
	}
	var unseen []*history.Op
	for _, o := range ops {
		if o.F == "append" && !seen[o.Arg] {
			unseen = append(unseen, o)
		}
	}
	for _, o := range unseen {
		if len(order) > 0 {
			g.link(order[len(order)-1], o, ww)
		}
	}
	for _, o := range ops {
		if o.F != "read" {
			continue
		}
		n := len(o.Values)
		if n > 0 {
			g.link(order[n-1], o, wr)
		}
		if n < len(order) {
			g.link(o, order[n], rw)
		} else {
			for _, later := range unseen {
				g.link(o, later, rw)
			}
		}
	}
}

func (g *graph) addTime() {
	var returned []int
	for i, o := range g.ops {
		if o.Return != history.Open {
			returned = append(returned, i)
		}
	}
	sort.Slice(returned, func(a, b int) bool { return g.ops[returned[a]].Return < g.ops[returned[b]].Return })
	first := len(g.ops)
	for n, i := range returned {
		g.edges[i] = append(g.edges[i], edge{first + n, real})
		g.edges = append(g.edges, nil)
		if n > 0 {
			g.edges[first+n-1] = append(g.edges[first+n-1], edge{first + n, real})
		}
	}
	for i, o := range g.ops {
		n := sort.Search(len(returned), func(n int) bool { return g.ops[returned[n]].Return >= o.Invoke })
		if n > 0 {
			g.edges[first+n-1] = append(g.edges[first+n-1], edge{i, real})
		}
	}
}

// components are the strongly connected parts with more than one node (Tarjan, without recursion).
func (g *graph) components() (found [][]int) {
	n := len(g.edges)
	number, low, on := make([]int, n), make([]int, n), make([]bool, n)
	var stack, path, next []int
	count := 0
	for start := range n {
		if number[start] != 0 {
			continue
		}
		path, next = append(path[:0], start), append(next[:0], 0)
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[len(next)-1] == 0 {
				count++
				number[at], low[at], on[at] = count, count, true
				stack = append(stack, at)
			}
			descended := false
			for next[len(next)-1] < len(g.edges[at]) {
				to := g.edges[at][next[len(next)-1]].to
				next[len(next)-1]++
				if number[to] == 0 {
					path, next = append(path, to), append(next, 0)
					descended = true
					break
				}
				if on[to] {
					low[at] = min(low[at], number[to])
				}
			}
			if descended {
				continue
			}
			path, next = path[:len(path)-1], next[:len(next)-1]
			if len(path) > 0 {
				up := path[len(path)-1]
				low[up] = min(low[up], low[at])
			}
			if low[at] != number[at] {
				continue
			}
			var part []int
			for {
				top := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				on[top] = false
				part = append(part, top)
				if top == at {
					break
				}
			}
			if len(part) > 1 {
				found = append(found, part)
			}
		}
	}
	return found
}

// cycles: a short one of each component, as steps.
func (g *graph) cycles() (found [][]step) {
	for _, part := range g.components() {
		inside := map[int]bool{}
		for _, i := range part {
			inside[i] = true
		}
		var best []step
		for tries, i := range part {
			if i >= len(g.ops) || (tries > 200 && best != nil) {
				continue
			}
			cycle := g.shortestFrom(i, inside)
			if best == nil || (cycle != nil && len(cycle) < len(best)) {
				best = cycle
			}
		}
		found = append(found, best)
	}
	return found
}

type step struct {
	from int
	kind edgeKind
}

func (g *graph) shortestFrom(start int, inside map[int]bool) []step {
	before := map[int]step{}
	queue := []int{start}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range g.edges[at] {
			if e.to == start {
				cycle := []step{{at, e.kind}}
				for at != start {
					s := before[at]
					cycle = append([]step{s}, cycle...)
					at = s.from
				}
				return cycle
			}
			if _, seen := before[e.to]; !seen && inside[e.to] {
				before[e.to] = step{at, e.kind}
				queue = append(queue, e.to)
			}
		}
	}
	return nil
}

// classify by the edges, as Adya: what only writes explain is worse than what needs reads.
func (g *graph) classify(cycle []step) (class, text string) {
	var kinds [4]int
	last := edgeKind(-1)
	for _, s := range cycle {
		if s.kind == real && last == real {
			continue
		}
		last = s.kind
		kinds[s.kind]++
		if s.from < len(g.ops) {
			text += fmt.Sprintf("%s(%s) -%s-> ", g.ops[s.from].F, g.ops[s.from].Key, s.kind)
		}
	}
	switch {
	case kinds[rw] == 0 && kinds[wr] == 0:
		class = "G0"
	case kinds[rw] == 0:
		class = "G1c"
	case kinds[rw] == 1:
		class = "G-single"
	default:
		class = "G2"
	}
	if kinds[real] > 0 {
		class += "-realtime"
	}
	return class, "a cycle: " + text + "the first"
}

func (g *graph) opsOf(cycle []step) (ops []*history.Op) {
	for _, s := range cycle {
		if s.from < len(g.ops) {
			ops = append(ops, g.ops[s.from])
		}
	}
	return ops
}
