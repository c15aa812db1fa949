package nemesis

// onewayIn: one node hears nobody, and is heard.
var onewayIn = &Nemesis{
	Name: "oneway-in", Does: "one node hears no other but is heard, half of the time the active one",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		if e.Intn(2) == 0 {
			nodes, _ = e.activeFirst()
		}
		return e.cutting("oneway-in", "deafened"+nameOf(nodes[:1]), false, from(nodes[1:], nodes[:1]))
	},
}

// onewayOut: one node hears all, and nobody hears it.
var onewayOut = &Nemesis{
	Name: "oneway-out", Does: "one node hears the others but is not heard, half of the time the active one",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		if e.Intn(2) == 0 {
			nodes, _ = e.activeFirst()
		}
		return e.cutting("oneway-out", "muted"+nameOf(nodes[:1]), false, from(nodes[:1], nodes[1:]))
	},
}
