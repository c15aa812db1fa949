package nemesis

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

// loss of packets between one node and the others.
var loss = &Nemesis{
	Name: "loss", Does: "of the packets between one node and the others, 5 to 40 in a hundred are lost", Links: true, Acts: true,
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		if e.Intn(2) == 0 {
			nodes, _ = e.activeFirst()
		}
		cuts := between(nodes[:1], nodes[1:])
		percent := 5 + e.Intn(36)
		for i := range cuts {
			cuts[i].Percent = percent
		}
		harm, err := e.cutting("loss", fmt.Sprintf("lost %d %% of the packets of%s", percent, nameOf(nodes[:1])), false, cuts)
		if err != nil {
			return nil, err
		}
		undo := harm.Undo
		harm.Undo = func() error {
			lost, err := e.Cluster.Sandbox().Lost() // another nemesis may have begun to count again: then fewer
			if err != nil {
				return err
			}
			if lost > 0 {
				e.acted("loss")
			}
			return undo()
		}
		return harm, nil
	},
}

func withWire(o *cluster.Options) { o.Wire = true }

// onWire is a fault of the packets between one node and the others.
func (e *Env) onWire(name, what string, late time.Duration, reorder, duplicate int32) (*Harm, error) {
	nodes := e.Shuffled()
	if e.Intn(2) == 0 {
		nodes, _ = e.activeFirst()
	}
	n := nodes[0]
	before := n.Wire.Harmed()
	n.Wire.Set(late, reorder, duplicate)
	return &Harm{What: what + " " + n.Name, Undo: func() error {
		n.Wire.Set(0, 0, 0)
		if n.Wire.Harmed() > before {
			e.acted(name)
		}
		return nil
	}}, nil
}

var delay = &Nemesis{
	Name: "delay", Does: "packets between one node and the others are 5 to 150 ms late in each direction", Links: true, Acts: true,
	Options: withWire,
	Begin: func(e *Env) (*Harm, error) {
		ms := 5 + e.Intn(146)
		return e.onWire("delay", fmt.Sprintf("delayed by %d ms", ms), time.Duration(ms)*time.Millisecond, 0, 0)
	},
}

var reorder = &Nemesis{
	Name: "reorder", Does: "a third of the packets between one node and the others are overtaken by later ones", Links: true, Acts: true,
	Options: withWire,
	Begin: func(e *Env) (*Harm, error) {
		return e.onWire("reorder", "reordered packets of", 0, 33, 0)
	},
}

var duplicate = &Nemesis{
	Name: "duplicate", Does: "a third of the packets between one node and the others come twice", Links: true, Acts: true,
	Options: withWire,
	Begin: func(e *Env) (*Harm, error) {
		return e.onWire("duplicate", "doubled packets of", 0, 0, 33)
	},
}
