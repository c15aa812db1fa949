package judge

import (
	"slices"
	"strings"

	"holdfast/jepsen/internal/history"
)

// SealKey is the key of the operations on one node: "seal" and "unseal" by its one operator, one
// after the other, and "serve" by clients (Value is 1 where a value was served, else 0).
func SealKey(node string) string { return sealPrefix + node }

const sealPrefix = "seal/"

// Shares is the key of "rekey", which puts a new key share (Arg) in force, and of "open" at the end:
// whether a share (Arg) opened a node (Value 1) that has all of the state. A node is given one after the
// other until one opens it.
const Shares = "shares"

// Seal judges that a node which was sealed serves no value before an unseal begins; that former key
// shares open no node and the present one opens each; and the registers that are read and written
// meanwhile.
func Seal(h *history.History) Verdict {
	rest := &history.History{Faults: h.Faults}
	var rekeys, opens []*history.Op
	for _, o := range h.Ops {
		switch {
		case o.Key != Shares:
			rest.Ops = append(rest.Ops, o)
		case o.F == "rekey" && o.Type != history.Fail:
			rekeys = append(rekeys, o)
		case o.F == "open":
			opens = append(opens, o)
		}
	}
	v := closedNodes(rest, sealPrefix, "seal", "unseal")
	keyShares(&v, rekeys, opens)
	return v
}

// keyShares: only the last replacement that was acknowledged, and what came after it without a known
// outcome, may be in force; and one share is, on every node.
func keyShares(v *Verdict, rekeys, opens []*history.Op) {
	var last *history.Op
	may := map[int64]bool{}
	for _, o := range rekeys { // one after the other
		if o.Type == history.OK {
			last = o
			may = map[int64]bool{}
		}
		may[o.Arg] = true
	}
	opened, tried := map[string]*history.Op{}, map[string]*history.Op{}
	var first *history.Op
	for _, o := range opens {
		if tried[o.Node] = o; o.Value == 0 {
			continue
		}
		opened[o.Node] = o
		switch {
		case last != nil && !may[o.Arg]:
			v.add("a former key share opens", o.Node, last, o)
		case first != nil && first.Arg != o.Arg:
			v.add("two key shares in force", first.Node+" and "+o.Node, first, o)
		}
		first = o
	}
	for node, o := range tried {
		if opened[node] == nil {
			v.add("no key share opens", node, append(slices.Clone(rekeys[max(0, len(rekeys)-1):]), o)...)
		}
	}
	v.note("%d times new key shares, %d shares tried at the end", len(rekeys), len(opens))
}

// closedNodes judges nodes that serve nothing after `closing` and before `opening`.
func closedNodes(h *history.History, prefix, closing, opening string) Verdict {
	rest, nodes := &history.History{}, map[string][]*history.Op{}
	for _, o := range h.Ops {
		if strings.HasPrefix(o.Key, prefix) {
			nodes[o.Key] = append(nodes[o.Key], o)
		} else {
			rest.Ops = append(rest.Ops, o)
		}
	}
	v := Register(rest)
	closed := 0
	for _, ops := range nodes {
		closed += closedNode(&v, ops, closing, opening)
	}
	v.note("%d times %s", closed, closing)
	return v
}

func closedNode(v *Verdict, ops []*history.Op, closing, opening string) (closed int) {
	for i, shut := range ops {
		if shut.F != closing || shut.Type != history.OK {
			continue
		}
		if pending(ops[:i], opening) {
			continue // it may take effect at any time
		}
		closed++
		until := int64(history.Open) // the first opening that began after the closing did
		for _, o := range ops[i:] {
			if o.F == opening && o.Type != history.Fail {
				until = o.Invoke
				break
			}
		}
		for _, o := range ops {
			served := o.F == "serve" && o.Type == history.OK && o.Value == 1
			if served && shut.Before(o) && o.Return < until {
				v.add("served after "+closing, shut.Key, shut, o)
				return closed
			}
		}
	}
	return closed
}

// pending says whether an opening has an unknown outcome.
func pending(ops []*history.Op, opening string) bool {
	for _, o := range ops {
		if o.F == opening && o.Type == history.Info {
			return true
		}
	}
	return false
}
