package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

// ring: each node sees a majority, and no two the same one. Of three nodes each hears one neighbour.
var ring = &Nemesis{
	Name: "ring", Does: "each node hears its neighbours in a ring alone (of three: in one direction)",
	Longest: 1500 * time.Millisecond, // of three nodes none hears a majority that hears it
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		var cuts []cluster.Cut
		for i, a := range nodes {
			for j, b := range nodes {
				distance := (j - i + len(nodes)) % len(nodes)
				far := distance > 1 && distance < len(nodes)-1
				if far || (len(nodes) == 3 && distance == 2) {
					cuts = append(cuts, cluster.Cut{From: a.Number, To: b.Number})
				}
			}
		}
		return e.cutting("ring", "ring of"+nameOf(nodes), false, cuts)
	},
}

// random cuts each direction of each link by chance.
var random = &Nemesis{
	Name: "random", Does: "each direction of each link is cut with a chance of one third",
	Begin: func(e *Env) (*Harm, error) {
		var cuts []cluster.Cut
		for _, c := range from(e.Cluster.Nodes, e.Cluster.Nodes) {
			if c.From != c.To && e.Intn(3) == 0 {
				cuts = append(cuts, c)
			}
		}
		return e.cutting("random", "cut links by chance", false, cuts)
	},
}
