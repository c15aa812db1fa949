package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"holdfast/jepsen/internal/history"
)

// inOrder restricts a model of few values: operations that write the same value (Arg) without a known
// outcome take effect in the order of their invocation. That refuses nothing that is possible: an earlier
// one may stand wherever a later one of the same value stands, for both have no end. And it saves the
// judge from trying each set of them.
func inOrder(model porcupine.Model, ops []*history.Op) porcupine.Model {
	var open []*history.Op
	for _, o := range ops {
		if o.Type == history.Info {
			open = append(open, o)
		}
	}
	slices.SortStableFunc(open, func(a, b *history.Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	places, count := map[*history.Op]int{}, [fewValues]int{}
	for _, o := range open {
		places[o] = count[o.Arg]
		count[o.Arg]++
	}
	type state struct {
		inner any
		done  [fewValues]int // operations without a known outcome, of each value
	}
	step := model.Step
	return porcupine.Model{
		Init: func() any { return state{inner: model.Init()} },
		Step: func(now, input, output any) (bool, any) {
			s, o := now.(state), input.(*history.Op)
			if place, is := places[o]; is {
				if s.done[o.Arg] != place {
					return false, s
				}
				s.done[o.Arg]++
			}
			var ok bool
			ok, s.inner = step(s.inner, input, output)
			return ok, s
		},
		DescribeOperation: model.DescribeOperation,
		DescribeState:     func(now any) string { return fmt.Sprint(now.(state).inner) },
	}
}

// fewValues that operations of such a model may have: 0 to so many, without the last.
const fewValues = 4
