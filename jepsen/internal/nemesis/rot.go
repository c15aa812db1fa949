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
		Name: name, Does: "two bits flip in " + what + " of one node while it is down", Acts: true,
		Options: func(o *cluster.Options) { configured(o, "snapshot_log_bytes", 64<<10) },
		Setup:   voteAtOnce,
		Begin: func(e *Env) (*Harm, error) {
			if !everyNodeVotes(e) {
				return nil, nil
			}
			n := e.takeOne()
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

// voteAtOnce gives a member its vote as soon as it is healthy; by default that takes ten seconds.
func voteAtOnce(e *Env) error {
	ask := e.Cluster.Client()
	defer ask.Close()
	r := ask.Do(e.Cluster.Nodes[0], cluster.Request{Method: "POST", Path: "/v1/sys/storage/raft/autopilot/configuration",
		Body: map[string]any{"server_stabilization_time": 0}})
	if r.Status != 204 {
		return fmt.Errorf("autopilot: %s", r.What())
	}
	return nil
}

func everyNodeVotes(e *Env) bool {
	active := e.Cluster.Active()
	if active == nil {
		return false
	}
	ask := e.Cluster.Client()
	defer ask.Close()
	r := ask.Do(active, cluster.Request{Method: "GET", Path: "/v1/sys/storage/raft/configuration", Timeout: time.Second})
	var body struct {
		Data struct {
			Config struct {
				Servers []struct{ Voter bool }
			}
		}
	}
	if r.Status != 200 || r.JSON(&body) != nil {
		return false
	}
	voters := 0
	for _, s := range body.Data.Config.Servers {
		if s.Voter {
			voters++
		}
	}
	return voters == len(e.Cluster.Nodes)
}
