// SPDX-License-Identifier: Apache-2.0

// Package grants decides how many workers the VMs of a host may keep ready ahead of use. Each has a
// context on a GPU, which takes some of its memory whether or not a program ever comes. So there is
// a bound for each GPU, and the VMs whose programs began last have the workers.
//
// It is only the policy: it has no clock, process or state. Its owner asks again whenever something
// has changed, and passes the last answer.
//
// Who may lie: a VM, about what it wants. It gets no more than its part of the bound, if others
// have used the GPU as recently.
package grants

import (
	"cmp"
	"slices"
	"time"
)

// Steady is by how much later a VM must have been used to take over a worker that another one
// keeps. Starting one costs the GPU a fifth of a second, so they must not go to and fro.
const Steady = 10 * time.Second

// VM is a VM that may keep workers.
type VM struct {
	Want int           // how many it wants to keep
	Used time.Duration // when its last program began, by any clock; the larger, the later
	Has  int           // how many it was last granted
}

// Of says how many workers each VM may keep, if all may keep most together. Each VM gets one before
// any gets another.
func Of(bound int, vms []VM) []int {
	order := make([]int, 0, len(vms))
	left := 0
	for i, v := range vms {
		if v.Want > 0 {
			order = append(order, i)
			left += v.Want
		}
	}
	left = min(left, bound)
	slices.SortFunc(order, func(a, b int) int { return before(&vms[a], &vms[b]) })
	granted := make([]int, len(vms))
	for left > 0 {
		for _, i := range order {
			if left > 0 && granted[i] < vms[i].Want {
				granted[i]++
				left--
			}
		}
	}
	return granted
}

// before compares two VMs: the one that gets a worker first is less.
func before(a, b *VM) int {
	return cmp.Or(
		cmp.Compare(b.Used/Steady, a.Used/Steady),
		-compare(a.Has > 0, b.Has > 0),
		cmp.Compare(b.Used, a.Used),
	)
}

// compare compares bools; false is less.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
