package judge

import "holdfast/jepsen/internal/history"

// MemberKey is the key of the operations on one node: "remove" and "admit" by its one operator, one
// after the other, and "serve" by clients.
func MemberKey(node string) string { return memberPrefix + node }

const memberPrefix = "member/"

// Members judges that a node which was removed serves no value before it is admitted again; and the
// registers that are read and written meanwhile, on all members.
func Members(h *history.History) Verdict { return closedNodes(h, memberPrefix, "remove", "admit") }
