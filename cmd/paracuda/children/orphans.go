// SPDX-License-Identifier: Apache-2.0

package children

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/starter"
)

// childFiles are the descriptors that name a VM's children. The keeper has them, too: if the
// starter process is gone when the next device process begins, that one still learns from the
// kernel when the children have ended. Before that they may touch the guest's memory.
type childFiles struct {
	remains *remains.Remains

	mu    sync.Mutex
	taken [remains.Pidfds]bool // guarded by mu
}

// keptChild is a child whose descriptor is kept until Wait returns.
type keptChild struct {
	*starter.Process
	drop func()
}

// Wait implements device.Process.
func (c keptChild) Wait() error {
	err := c.Process.Wait()
	c.drop()
	return err
}

// keptOrphan is one whose starter process is gone.
type keptOrphan struct {
	*starter.Orphan
	drop func()
}

// Wait implements device.Process.
func (c keptOrphan) Wait() error {
	err := c.Orphan.Wait()
	c.drop()
	return err
}

// keep has the descriptor of a child kept.
func (f *childFiles) keep(p *starter.Process) device.Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.taken {
		if !f.taken[i] {
			f.taken[i] = true
			p.WithFD(func(fd int) { f.remains.Keep(remains.Pidfd(i), fd) })
			return keptChild{p, func() { f.drop(i) }}
		}
	}
	return p // the starter process has no more children than that
}

// drop drops what is kept at a place.
func (f *childFiles) drop(place int) {
	f.remains.Drop(remains.Pidfd(place))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken[place] = false
}

// resume keeps those children of a starter process that lives on which haven't ended.
func (f *childFiles) resume(children []*starter.Process) []device.Process {
	for i := range remains.Pidfds {
		if fd, left := f.remains.Take(remains.Pidfd(i)); left {
			handover.CloseFiles([]int{fd})
			f.drop(i)
		}
	}
	left := []device.Process{}
	for _, p := range children {
		left = append(left, f.keep(p))
	}
	return left
}

// orphans are the children that are left by a starter process that is gone. The kernel ends them.
func (f *childFiles) orphans() (left []device.Process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range remains.Pidfds {
		if fd, is := f.remains.Take(remains.Pidfd(i)); is {
			f.taken[i] = true
			left = append(left, keptOrphan{starter.NewOrphan(fd), func() { f.drop(i) }})
		}
	}
	return left
}
