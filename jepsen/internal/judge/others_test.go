package judge

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"holdfast/jepsen/internal/history"
)

func generateSet(seed int64) *history.History {
	w := newWorld(seed)
	count := 0
	moments := w.plan(60, func(o *history.Op) {
		o.Key, o.F = "folder", "list"
		if w.Intn(2) == 0 {
			count++
			o.F, o.Text = "add", fmt.Sprintf("n%d", count)
		} else if w.Intn(4) == 0 {
			o.F = "walk"
		}
	})
	var names []string
	var walks []*history.Op
	for _, m := range moments {
		if m.op.F == "list" || m.op.F == "walk" {
			m.op.Names = append([]string(nil), names...)
			if m.op.F == "walk" {
				walks = append(walks, m.op)
			}
			continue
		}
		w.forget(m.op)
		if m.op.Type != history.OK && w.Intn(2) > 0 {
			continue
		}
		names = append(names, m.op.Text)
		for _, walk := range walks { // a later page may show it
			if m.at < walk.Return && w.Intn(2) == 0 {
				walk.Names = append(walk.Names, m.op.Text)
			}
		}
	}
	return w.history()
}

func longList(o *history.Op) bool { return o.F == "list" && len(o.Names) >= 2 }

func TestSet(t *testing.T) {
	judged(t, Set, generateSet,
		mutation{"lost: a list lacks what was added before", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, isOK("add"))
			l := some(r, h, func(o *history.Op) bool { return o.F == "list" && a != nil && a.Before(o) })
			if l == nil {
				return false
			}
			l.Names = withoutName(l.Names, a.Text)
			return true
		}},
		mutation{"skipped: a walk lacks what was added before", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, isOK("add"))
			l := some(r, h, func(o *history.Op) bool { return o.F == "walk" && a != nil && a.Before(o) })
			if l == nil {
				return false
			}
			l.Names = withoutName(l.Names, a.Text)
			return true
		}},
		mutation{"doubled: a name is twice in a list", func(r *rand.Rand, h *history.History) bool {
			l := some(r, h, longList)
			if l != nil {
				l.Names = append(l.Names, l.Names[0])
			}
			return l != nil
		}},
		mutation{"early: a name is listed before its addition began", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, func(o *history.Op) bool { return o.F == "add" })
			l := some(r, h, func(o *history.Op) bool { return o.F == "list" && a != nil && o.Before(a) })
			if l != nil {
				l.Names = append(l.Names, a.Text)
			}
			return l != nil
		}},
		mutation{"stale: a later list is shorter", func(r *rand.Rand, h *history.History) bool {
			l := some(r, h, longList)
			if l == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: "folder", F: "list", Type: history.OK, Names: l.Names[1:], Invoke: at + 1, Return: at + 2})
			return true
		}},
		mutation{"swapped: two lists show one of two open names each", func(_ *rand.Rand, h *history.History) bool {
			at := end(h)
			for i, name := range []string{"p", "q"} {
				h.Ops = append(h.Ops, &history.Op{Key: "other", F: "add", Type: history.Info, Text: name, Invoke: at + 1, Return: history.Open},
					&history.Op{Key: "other", F: "list", Type: history.OK, Names: []string{name}, Invoke: at + 2, Return: at + 3 + int64(i)})
			}
			return true
		}},
		mutation{"phantom: nobody added it", func(r *rand.Rand, h *history.History) bool {
			l := some(r, h, isOK("list"))
			if l != nil {
				l.Names = append(l.Names, "phantom")
			}
			return l != nil
		}},
		mutation{"late: a name appears in a list that ended before one without it began", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			add := &history.Op{Key: "other", F: "add", Type: history.Info, Text: "x", Invoke: at + 1, Return: history.Open}
			with := &history.Op{Key: "other", F: "list", Type: history.OK, Names: []string{"x"}, Invoke: at + 2, Return: at + 3}
			lacks := &history.Op{Key: "other", F: "list", Type: history.OK, Invoke: at + 4, Return: at + 5}
			h.Ops = append(h.Ops, add, with, lacks)
			return true
		}},
	)
}

func withoutName(names []string, name string) (kept []string) {
	for _, n := range names {
		if n != name {
			kept = append(kept, n)
		}
	}
	return kept
}

// generateOnce: ten things, each used by three at once.
func generateOnce(seed int64) *history.History {
	w := newWorld(seed)
	moments := w.plan(30, func(o *history.Op) { o.F, o.Key = "use", fmt.Sprintf("thing%d", w.Intn(10)) })
	used := map[string]bool{}
	for _, m := range moments {
		o := m.op
		w.forget(o)
		if o.Type == history.Info && w.Intn(2) == 0 {
			continue
		}
		if used[o.Key] && o.Type == history.OK {
			o.Type = history.Fail
		}
		used[o.Key] = true
	}
	return w.history()
}

func TestOnce(t *testing.T) {
	judged(t, Once, generateOnce,
		mutation{"doubled: two are good", func(r *rand.Rand, h *history.History) bool {
			good := some(r, h, isOK("use"))
			if good == nil {
				return false
			}
			o := some(r, h, func(o *history.Op) bool { return o.Key == good.Key && o.Type == history.Fail })
			if o != nil {
				o.Type = history.OK
			}
			return o != nil
		}},
		mutation{"lost: all are refused", func(r *rand.Rand, h *history.History) bool {
			good := some(r, h, isOK("use"))
			if good == nil {
				return false
			}
			unknown := some(r, h, func(o *history.Op) bool { return o.Key == good.Key && o.Type == history.Info })
			good.Type = history.Fail
			return unknown == nil
		}},
		mutation{"late: good after it was refused", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: "other", F: "use", Type: history.Fail, Invoke: at + 1, Return: at + 2},
				&history.Op{Key: "other", F: "use", Type: history.Info, Invoke: at, Return: history.Open},
				&history.Op{Key: "other", F: "use", Type: history.OK, Invoke: at + 3, Return: at + 4})
			return true
		}},
	)
}

// generateCreate: some names that five create, and looks at them.
func generateCreate(seed int64) *history.History {
	w := newWorld(seed)
	mark := int64(0)
	moments := w.plan(50, func(o *history.Op) {
		o.F, o.Key = "look", fmt.Sprintf("name%d", w.Intn(5))
		if w.Intn(2) == 0 {
			mark++
			o.F, o.Arg = "create", mark
		}
	})
	owner := map[string]int64{}
	for _, m := range moments {
		o := m.op
		if o.F == "look" {
			if owner[o.Key] != 0 {
				o.Text, o.Arg = "id of "+o.Key, owner[o.Key]
			}
			continue
		}
		w.forget(o)
		if o.Type == history.Info && w.Intn(2) == 0 {
			continue
		}
		if owner[o.Key] == 0 {
			owner[o.Key] = o.Arg
		} else if o.Type == history.OK {
			o.Type = history.Fail
		}
	}
	return w.history()
}

func TestCreate(t *testing.T) {
	looked := func(o *history.Op) bool { return o.F == "look" && o.Text != "" }
	judged(t, Create, generateCreate,
		mutation{"doubled: two create it", func(r *rand.Rand, h *history.History) bool {
			made := some(r, h, isOK("create"))
			if made == nil {
				return false
			}
			o := some(r, h, func(o *history.Op) bool { return o.F == "create" && o.Key == made.Key && o.Type == history.Fail })
			if o != nil {
				o.Type = history.OK
			}
			return o != nil
		}},
		mutation{"lost: it is not there later", func(r *rand.Rand, h *history.History) bool {
			made := some(r, h, isOK("create"))
			l := some(r, h, func(o *history.Op) bool { return o.F == "look" && made != nil && o.Key == made.Key && made.Before(o) })
			if l != nil {
				l.Text, l.Arg = "", 0
			}
			return l != nil
		}},
		mutation{"swapped: it is of another client", func(r *rand.Rand, h *history.History) bool {
			made := some(r, h, isOK("create"))
			l := some(r, h, func(o *history.Op) bool { return looked(o) && made != nil && o.Key == made.Key })
			if l != nil {
				l.Arg = 1000
			}
			return l != nil
		}},
		mutation{"two ids", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, looked)
			b := some(r, h, func(o *history.Op) bool { return a != nil && o != a && looked(o) && o.Key == a.Key })
			if b != nil {
				b.Text = "another"
			}
			return b != nil
		}},
		mutation{"stale: seen, then not there", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, looked)
			if a == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: a.Key, F: "look", Type: history.OK, Invoke: at + 1, Return: at + 2})
			return true
		}},
		mutation{"early: seen before anybody created it", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, looked)
			if a == nil {
				return false
			}
			first := h.Ops[0].Invoke
			h.Ops = append(h.Ops, &history.Op{Key: a.Key, F: "look", Type: history.OK, Text: a.Text, Arg: a.Arg, Invoke: first - 2, Return: first - 1})
			return true
		}},
		mutation{"refused for nothing", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: "new", F: "create", Arg: 999, Type: history.Fail, Invoke: at + 1, Return: at + 2})
			return true
		}},
	)
}

func generateAuthority(seed int64) *history.History {
	w := newWorld(seed)
	moments := w.plan(40, func(o *history.Op) {
		o.Key, o.F = "g", "read"
		if o.Process == 0 {
			o.F = "write"
		}
	})
	state := int64(0)
	for _, m := range moments {
		o := m.op
		if o.F == "write" {
			if o.Arg = Allowed; state == Allowed {
				o.Arg = Denied
			}
			state = o.Arg
		} else {
			o.Value = state
		}
	}
	return w.history()
}

func TestAuthority(t *testing.T) {
	judged(t, Authority, generateAuthority,
		mutation{"late: allowed after the denial", func(_ *rand.Rand, h *history.History) bool {
			return decideAtEnd(h, Denied, Allowed)
		}},
		mutation{"stale: denied after the grant", func(_ *rand.Rand, h *history.History) bool {
			return decideAtEnd(h, Allowed, Denied)
		}},
	)
}

func decideAtEnd(h *history.History, decision, seen int64) bool {
	at := end(h)
	h.Ops = append(h.Ops, &history.Op{Key: "g", F: "write", Type: history.OK, Arg: decision, Invoke: at + 1, Return: at + 2},
		&history.Op{Key: "g", F: "read", Type: history.OK, Value: seen, Invoke: at + 3, Return: at + 4})
	return true
}

func generateSeal(seed int64) *history.History {
	w := newWorld(seed)
	moments := w.plan(60, func(o *history.Op) {
		o.Key, o.F = SealKey("node1"), "serve"
		if o.Process == 0 {
			o.F = "seal"
		}
	})
	sealed := false
	for _, m := range moments {
		o := m.op
		if o.F == "seal" {
			if sealed {
				o.F = "unseal"
			}
			sealed = !sealed
		} else if !sealed {
			o.Value = 1
		}
	}
	return w.history()
}

// servesAfter lets a node serve once more at the end, after an operation that ends its service.
func servesAfter(key, ending string) func(*rand.Rand, *history.History) bool {
	return func(_ *rand.Rand, h *history.History) bool {
		at := end(h)
		h.Ops = append(h.Ops, &history.Op{Key: key, F: ending, Type: history.OK, Invoke: at + 1, Return: at + 2},
			&history.Op{Key: key, F: "serve", Type: history.OK, Value: 1, Invoke: at + 3, Return: at + 4})
		return true
	}
}

// servesBetween lets a node serve between an operation that ends its service and one that begins it again.
func servesBetween(ending, beginning string) func(*rand.Rand, *history.History) bool {
	return func(r *rand.Rand, h *history.History) bool {
		for i, s := range h.Ops {
			if s.F != ending {
				continue
			}
			for _, o := range h.Ops[i:] {
				if o.F == beginning && o.Return > s.Return {
					served := some(r, h, func(p *history.Op) bool { return p.F == "serve" && s.Before(p) && p.Return < o.Invoke })
					if served != nil {
						served.Value = 1
						return true
					}
					break
				}
			}
		}
		return false
	}
}

func TestSeal(t *testing.T) {
	judged(t, Seal, generateSeal,
		mutation{"served while sealed", servesAfter(SealKey("node1"), "seal")},
		mutation{"served in the middle", servesBetween("seal", "unseal")},
	)
}

const second = int64(time.Second)

// generateTokens: one of each kind at a time, with times in seconds.
func generateTokens(seed int64) *history.History {
	w := newWorld(seed)
	h := &history.History{}
	add := func(o history.Op) { h.Ops = append(h.Ops, &o) }
	for i := range int64(6) {
		at := i * 10 * second
		brief, limited, tree := fmt.Sprintf("b%d", i), fmt.Sprintf("l%d", i), fmt.Sprintf("t%d", i)
		add(history.Op{F: "create", Key: brief, Text: Brief, Type: history.OK, Invoke: at, Return: at + 1, Value: at + 3*second})
		add(history.Op{F: "create", Key: limited, Text: Limited, Arg: 3, Type: history.OK, Invoke: at, Return: at + 1})
		add(history.Op{F: "create", Key: tree + ".0", Text: Tree, Names: []string{tree}, Type: history.OK, Invoke: at, Return: at + 1})
		add(history.Op{F: "create", Key: tree + ".1", Text: Tree, Names: []string{tree}, Type: history.OK, Invoke: at, Return: at + 1})
		uses := int64(0)
		for n := range int64(8) {
			from := at + (n+1)*second
			use := func(key string, good bool) {
				o := history.Op{F: "use", Key: key, Type: history.OK, Invoke: from, Return: from + second/10}
				if good {
					o.Value = 1
				}
				add(o)
			}
			use(brief, from < at+3*second)
			if w.Intn(10) == 0 && uses < 3 {
				uses++
				add(history.Op{F: "use", Key: limited, Type: history.Info, Invoke: from, Return: history.Open})
			} else {
				use(limited, uses < 3)
				uses++
			}
			use(tree+".0", n < 4)
			use(tree+".1", n < 4)
			if n == 3 {
				add(history.Op{F: "revoke", Key: tree, Type: history.OK, Invoke: from + second/5, Return: from + second/4})
			}
		}
	}
	return h
}

func TestTokens(t *testing.T) {
	flip := func(name, kind string, from int64, fits func(*history.Op) bool) mutation {
		return mutation{name, func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool {
				return o.F == "use" && o.Type == history.OK && o.Key[:1] == kind && o.Value == from && fits(o)
			})
			if o != nil {
				o.Value = 1 - from
			}
			return o != nil
		}}
	}
	always := func(*history.Op) bool { return true }
	judged(t, Tokens, generateTokens,
		flip("early: a brief token is refused before its time", "b", 1, func(o *history.Op) bool { return o.Invoke/second%10 < 3 }),
		flip("late: a brief token is accepted after its time", "b", 0, func(o *history.Op) bool { return o.Invoke/second%10 > 5 }),
		flip("a token with uses left is refused", "l", 1, always),
		mutation{"doubled: one use too many", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool {
				return o.F == "use" && o.Key[:1] == "l" && o.Value == 0 && o.Type == history.OK
			})
			if o == nil {
				return false
			}
			unknown := some(r, h, func(u *history.Op) bool { return u.Key == o.Key && u.Type == history.Info })
			o.Value = 1
			return unknown == nil
		}},
		flip("a tree that nobody revoked is refused", "t", 1, always),
		flip("late: a revoked tree is accepted", "t", 0, always),
	)
}
