// Package judge says whether a history is possible for a correct program. Judges look at nothing but
// the history, so a kept one can be judged again.
package judge

import (
	"fmt"
	"strings"

	"holdfast/jepsen/internal/history"
)

// Anomaly is one contradiction, with the fewest operations that show it.
type Anomaly struct {
	Class string
	Text  string
	Ops   []*history.Op
}

func (a Anomaly) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", a.Class, a.Text)
	for _, o := range a.Ops {
		fmt.Fprintf(&text, "\n    %s", o)
	}
	return text.String()
}

// Verdict on a history. Pictures are pages of HTML by their names.
type Verdict struct {
	Anomalies []Anomaly
	Notes     []string
	Pictures  map[string]func(file string) error
}

func (v *Verdict) add(class, text string, ops ...*history.Op) {
	v.Anomalies = append(v.Anomalies, Anomaly{class, text, ops})
}

func (v *Verdict) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

func (v *Verdict) join(o Verdict) {
	v.Anomalies = append(v.Anomalies, o.Anomalies...)
	v.Notes = append(v.Notes, o.Notes...)
	for name, picture := range o.Pictures {
		if v.Pictures == nil {
			v.Pictures = map[string]func(string) error{}
		}
		v.Pictures[name] = picture
	}
}

// byKey splits operations, in the order of the first use of each key.
func byKey(ops []*history.Op) (keys []string, of map[string][]*history.Op) {
	of = map[string][]*history.Op{}
	for _, o := range ops {
		if of[o.Key] == nil {
			keys = append(keys, o.Key)
		}
		of[o.Key] = append(of[o.Key], o)
	}
	return keys, of
}

// unexpected collects the answers that no workload has a use for: a client marks them with the F
// "unexpected".
func unexpected(v *Verdict, h *history.History) {
	for _, o := range h.Ops {
		if o.F == Unexpected {
			v.add("unexpected answer", o.Error, o)
		}
	}
}

// Unexpected is the F of an operation whose answer fits none of the workload.
const Unexpected = "unexpected"
