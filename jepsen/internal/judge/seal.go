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
func Seal(h *history.History) Verdict {
	rest, nodes := &history.History{}, map[string][]*history.Op{}
	for _, o := range h.Ops {
		if strings.HasPrefix(o.Key, sealPrefix) {
			nodes[o.Key] = append(nodes[o.Key], o)
		} else {
			rest.Ops = append(rest.Ops, o)
		}
	}
	v := Register(rest)
	seals := 0
	for _, ops := range nodes {
		seals += sealNode(&v, ops)
	}
	v.note("%d seals", seals)
	return v
}

func sealNode(v *Verdict, ops []*history.Op) (seals int) {
	for i, seal := range ops {
		if seal.F != "seal" || seal.Type != history.OK {
			continue
		}
		if unsealPending(ops[:i]) {
			continue // it may take effect at any time
		}
		seals++
		until := int64(history.Open) // the first unseal that began after the seal did
		for _, o := range ops[i:] {
			if o.F == "unseal" && o.Type != history.Fail {
				until = o.Invoke
				break
			}
		}
		for _, o := range ops {
			served := o.F == "serve" && o.Type == history.OK && o.Value == 1
			if served && seal.Before(o) && o.Return < until {
				v.add("served while sealed", seal.Key, seal, o)
				return seals
			}
		}
	}
	return seals
}

// unsealPending says whether one of these has an unknown outcome.
func unsealPending(ops []*history.Op) bool {
	for _, o := range ops {
		if o.F == "unseal" && o.Type == history.Info {
			return true
		}
	}
	return false
}
