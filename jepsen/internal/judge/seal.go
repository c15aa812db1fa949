package judge

import (
	"strings"

	"holdfast/jepsen/internal/history"
)

// SealKey is the key of the operations on one node: "seal" and "unseal" by its one operator, one
// after the other, and "serve" by clients (Value is 1 where a value was served, else 0).
func SealKey(node string) string { return sealPrefix + node }

const sealPrefix = "seal/"

// Seal judges that a node which was sealed serves no value before an unseal begins; and the
// registers that are read and written meanwhile.
func Seal(h *history.History) Verdict { return closedNodes(h, sealPrefix, "seal", "unseal") }

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
