package nemesis

// thin limits the links of one node.
var thin = &Nemesis{
	Name: "thin", Does: "one node has 2 Mbit/s in each direction, half of the time the active one", Links: true,
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		if e.Intn(2) == 0 {
			nodes, _ = e.activeFirst()
		}
		n, s := nodes[0], e.Cluster.Sandbox()
		if err := s.Thin(n.Number, "2mbit"); err != nil {
			return nil, err
		}
		return &Harm{What: "thinned " + n.Name, Undo: func() error { return s.Thin(n.Number, "") }}, nil
	},
}
