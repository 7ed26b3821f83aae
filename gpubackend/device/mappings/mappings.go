// SPDX-License-Identifier: Apache-2.0

// Package mappings has the device process decide on what its workers map of the guest's memory
// (package mapleave), as far as they can ask: a worker says so when it has confined itself, and
// gets the guest's memory in answer, by numbers or in files.
//
// # Who owns what
//
// A Worker owns its Decider. A goroutine decides, until the worker has ended, whatever
// else the device process does: it may wait for that worker.
//
// # Who may lie
//
// A worker has confined itself before anything of a guest's reaches it. What it sends later is
// closed: it is listened to once. A reason by which it maps names what the guest's driver says, and
// is looked up there (package vouchers). The driver may lie about its own guest's memory.
package mappings

import (
	"os"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/gpubackend/device/ram"
	"github.com/paracuda/paracuda/gpubackend/device/workers"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/mapleave"
	"github.com/paracuda/paracuda/gpubackend/memfd"
	"github.com/paracuda/paracuda/virtqueue/guestmem"
)

// Config is what Mappings need.
type Config struct {
	RAM *ram.RAM
	// Vouchers is where the guest's driver says what is a channel's; 0: nowhere. It doesn't wait.
	Vouchers func() uint64
	// Make makes a file in memory for a worker, which has that process id; nil: nobody does.
	Make func(pid int, f memfd.Form) (*os.File, error)
	// Opens says that workers may open some files, as on CUDA.
	Opens bool
	// Run runs a part of this package on a goroutine, and survives its faults.
	Run func(part string, f func())
	Log *logrus.Entry
}

// Mappings decide for all workers of a VM.
type Mappings struct {
	Config
	once sync.Once // somebody was told that nobody is asked
	all  sync.Once // somebody was told that everything is allowed
	open sync.Once // or that workers could open the guest's memory
}

// New returns what decides for a VM's workers.
func New(c Config) *Mappings { return &Mappings{Config: c} }

// Confined takes what a worker says when it has confined itself, and tells it the guest's memory,
// unless it was started ahead of use: then the start message does. It doesn't wait.
func (x *Mappings) Confined(w *workers.Worker, m *handover.Message, fds []int) {
	if !w.BeginsToAsk() {
		handover.CloseFiles(fds)
		return
	}
	var asks bool
	if m.Files.Listener {
		asks = x.decide(w, m.Name(fds).Listener, nil)
	} else {
		x.sayNot(m.Error)
	}
	if w.Ahead {
		return
	}
	x.RAM.Use(func(mem *guestmem.Memory) {
		answer := &handover.Message{Kind: handover.KindGuest}
		files := x.RAM.DescribeTo(asks, mem, answer, nil)
		w.Tell(answer, files)
	})
}

// TakeOver goes on for a worker of the previous device process, with the listener that it had.
func (x *Mappings) TakeOver(w *workers.Worker, listener int) {
	if w.BeginsToAsk() && listener >= 0 {
		x.decide(w, listener, x.RAM.Numbers())
	}
}

// decide decides on a worker's mappings from now on, and says whether it can. The worker may have
// files by the numbers before already.
func (x *Mappings) decide(w *workers.Worker, listener int, before []uint32) bool {
	cameBack := sync.OnceFunc(func() { // calls wait until the front end has come back
		select {
		case <-x.RAM.Came():
		case <-w.Exited():
		}
		x.sayOpen()
	})
	g, err := mapleave.New(listener, policy{x, w, cameBack}, func(m mapleave.Mapping, err error) {
		w.Log().WithError(err).Warn("a worker may not map what it asks for")
	})
	if err != nil {
		x.sayNot(err.Error())
		return false
	}
	g.Before(before)
	w.AskedBy(g)
	x.Run("a worker's mappings", func() {
		if err := g.Serve(); err != nil {
			w.Log().WithError(err).Warn("a worker can't map anything any more: it is killed")
			w.Kill()
		}
	})
	return true
}

// sayOpen says, once, that it doesn't bound all that workers do.
func (x *Mappings) sayOpen() {
	if err := x.RAM.Open(); err != nil && x.Opens {
		x.open.Do(func() {
			x.Log.WithError(err).Warn("a worker that is taken over can open the VM's memory by " +
				"its name in /proc: run this service as the front end's user, or give the VM " +
				"memory that is a file with a name, as on hugetlbfs")
		})
	}
}

// sayNot says, once, why a worker gets the files of the guest's memory.
func (x *Mappings) sayNot(why string) {
	x.once.Do(func() {
		x.Log.WithField("why", why).Info("workers have the files of the VM's memory: this " +
			"process can't decide on what they map")
	})
}
