package nemesis

import "fmt"

// isolate one node from all others, half of the time the active one.
var isolate = &Nemesis{
	Name: "isolate", Does: "one node hears no other and is heard by none, half of the time the active one",
	Begin: func(e *Env) (*Harm, error) {
		nodes, found := e.Shuffled(), false
		if e.Intn(2) == 0 {
			nodes, found = e.activeFirst()
		}
		return e.cutting("isolate", "isolated"+nameOf(nodes[:1]), found, between(nodes[:1], nodes[1:]))
	},
}

// halves splits the cluster in two; one side has a majority, if the number of nodes is odd.
var halves = &Nemesis{
	Name: "halves", Does: "the cluster is in two parts, the active node in the smaller one half of the time",
	Begin: func(e *Env) (*Harm, error) {
		nodes, found := e.Shuffled(), false
		if e.Intn(2) == 0 {
			nodes, found = e.activeFirst()
		}
		half := len(nodes) / 2
		return e.cutting("halves", fmt.Sprintf("cut%s from%s", nameOf(nodes[:half]), nameOf(nodes[half:])), found,
			between(nodes[:half], nodes[half:]))
	},
}

// bridge leaves one node that both halves hear, while they do not hear each other.
var bridge = &Nemesis{
	Name: "bridge", Does: "two parts that only one node in the middle hears",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		middle := (len(nodes) - 1) / 2
		return e.cutting("bridge", "only"+nameOf(nodes[middle:middle+1])+" hears all", false,
			between(nodes[:middle], nodes[middle+1:]))
	},
}
