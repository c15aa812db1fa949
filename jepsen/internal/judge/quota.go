package judge

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"holdfast/jepsen/internal/history"
)

// QuotaRate is how many requests a node serves one client in each QuotaWindow.
const (
	QuotaRate   = 30
	QuotaWindow = time.Second
)

// Quota judges requests "ask" of one client through each node: served (Value 1) or refused because of
// the rate (Value 0). A node counts in windows that begin with a request, so within the length of a
// window two of them lie at most: twice the rate is served, and as much again by each process that
// began there. And a request is refused only if the rate was used up: so many requests of that node
// that were not refused may lie in the window.
func Quota(h *history.History) (v Verdict) {
	unexpected(&v, h)
	nodes := map[string][]*history.Op{}
	for _, o := range h.Ops {
		if o.F == "ask" && o.Node != "front" { // a load balancer does not tell which node answered
			nodes[o.Node] = append(nodes[o.Node], o)
		}
	}
	served, refused := 0, 0
	for node, ops := range nodes {
		for _, o := range ops {
			if o.Type == history.OK && o.Value == 1 {
				served++
			} else if o.Type == history.OK {
				refused++
			}
		}
		quotaAbove(&v, h, node, ops)
		quotaBelow(&v, node, ops)
	}
	v.note("%d served, %d refused", served, refused)
	return v
}

func quotaAbove(v *Verdict, h *history.History, node string, ops []*history.Op) {
	var served []*history.Op
	for _, o := range ops {
		if o.Type == history.OK && o.Value == 1 {
			served = append(served, o)
		}
	}
	for i, first := range served {
		until, count := first.Invoke+int64(QuotaWindow), 0
		for _, o := range served[i:] {
			if o.Invoke >= until {
				break
			}
			if o.Return < until {
				count++
			}
		}
		most := 2 * QuotaRate * (1 + startsOf(h, node, first.Invoke, until))
		if count > most {
			v.add("served above the rate", fmt.Sprintf("%s served %d in %v, at most %d are allowed", node, count, QuotaWindow, most), first)
			return
		}
	}
}

// startsOf counts faults between two times that may have begun a process of the node.
func startsOf(h *history.History, node string, from, to int64) (starts int) {
	for _, f := range h.Faults {
		if f.Start < to && f.End >= from && strings.Contains(f.What+" ", node+" ") {
			starts++
		}
	}
	return starts
}

func quotaBelow(v *Verdict, node string, ops []*history.Op) {
	var counted, returns []int64 // when those that were not refused began; when they ended
	for _, o := range ops {
		if o.Type != history.OK || o.Value == 1 {
			counted, returns = append(counted, o.Invoke), append(returns, o.Return)
		}
	}
	sort.Slice(counted, func(i, j int) bool { return counted[i] < counted[j] })
	sort.Slice(returns, func(i, j int) bool { return returns[i] < returns[j] })
	for _, o := range ops {
		if o.Type != history.OK || o.Value != 0 {
			continue
		}
		began := sort.Search(len(counted), func(i int) bool { return counted[i] > o.Return })
		over := sort.Search(len(returns), func(i int) bool { return returns[i] >= o.Invoke-int64(QuotaWindow) })
		if began-over < QuotaRate {
			v.add("refused below the rate", fmt.Sprintf("%s had at most %d requests, %d are allowed", node, began-over, QuotaRate), o)
			return
		}
	}
}
