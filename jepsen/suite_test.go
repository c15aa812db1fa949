package main

import (
	"slices"
	"testing"
)

// Slices have each row once, and those that found something every time.
func TestSlicesHaveEveryRow(t *testing.T) {
	var all []string
	for _, slice := range []string{"0/3", "1/3", "2/3"} {
		plans, err := suitePlans(&options{suite: "quick", slice: slice})
		if err != nil {
			t.Fatal(err)
		}
		last := plans[len(plans)-1]
		if last.Workload != "register" || last.Nemeses[0] != "replace" {
			t.Errorf("%s ends with %s", slice, last.Name())
		}
		rows, _ := sliceOf(quickRows, slice)
		if len(plans) != len(rows)+len(foundRows) {
			t.Errorf("%s has %d rows", slice, len(plans))
		}
		all = append(all, rows...)
	}
	slices.Sort(all)
	wanted := slices.Sorted(slices.Values(quickRows))
	if !slices.Equal(all, wanted) {
		t.Errorf("the slices have %v", all)
	}
	for _, wrong := range []string{"", "3/3", "-1/3", "0", "0/0"} {
		if _, err := sliceOf(quickRows, wrong); err == nil {
			t.Errorf("%q is a slice", wrong)
		}
	}
}
