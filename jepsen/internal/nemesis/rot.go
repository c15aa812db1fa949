package nemesis

import (
	"fmt"
	"regexp"
	"time"

	"holdfast/jepsen/internal/cluster"
)

var (
	rotLog  = rot("rot-log", "log segments", ".seg")
	rotSlot = rot("rot-slot", "the vote file", "slot")
	rotSnap = rot("rot-snap", "snapshots", ".snap")
)

// noticed are the words by which a node says that its files are damaged.
var noticed = regexp.MustCompile(`corrupt|damage|fell back`)

const rejoinPatience = 60 * time.Second

// rot flips bits in files of one node while it is down. It must notice, and may rejoin with nothing:
// until it has its vote again no other node is damaged, for the others have the only copies.
func rot(name, what, suffix string) *Nemesis {
	return &Nemesis{
		Name: name, Does: "two bits flip in " + what + " of one node while it is down", Acts: true, TakesVotes: true,
		Options: func(o *cluster.Options) { configured(o, "snapshot_log_bytes", 64<<10) },
		Setup:   voteAtOnce,
		Begin: func(e *Env) (*Harm, error) {
			n := e.takeOneWithCopies()
			if n == nil {
				return nil, nil
			}
			said := len(noticed.FindAllString(n.Log(), -1))
			if err := n.Kill(); err != nil {
				return nil, err
			}
			files, err := n.Rot(suffix)
			if err != nil {
				return nil, err
			}
			return &Harm{What: fmt.Sprintf("flipped bits in %d files of %s", files, n.Name), Undo: n.Start, Back: func() {
				defer e.giveCopiesBack()
				defer e.giveBack([]*cluster.Node{n})
				e.awaitBack([]*cluster.Node{n})
				for deadline := time.Now().Add(rejoinPatience); !everyNodeVotes(e); time.Sleep(50 * time.Millisecond) {
					if time.Now().After(deadline) {
						e.problem("%s has no vote %v after bits of its files flipped", n.Name, rejoinPatience)
						return
					}
				}
				if len(noticed.FindAllString(n.Log(), -1)) > said {
					e.acted(name)
				} else if files > 0 {
					e.problem("%s did not notice flipped bits in %d files", n.Name, files)
				}
			}}, nil
		},
	}
}
