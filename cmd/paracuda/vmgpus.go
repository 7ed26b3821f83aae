// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/arbiter/client"
	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/loglimit"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/size"
)

// What is noted of GPUs that --gpu doesn't name, so that the next device process has the same.
const (
	notedGPUs = "gpu="
	notedRoom = "gpu-memory="
)

// chosen is the result of a --gpu.
type chosen struct {
	gpus    []hostgpus.GPU // of the host's; none if they are software GPUs
	room    uint64         // memory that the VM was given on each of them; 0: not known
	release func()         // ends the arbiter's reservation until the VM joins; nil: none
}

// chooseGPUs finds the VM's GPUs, and says which they are.
func (o *deviceOptions) chooseGPUs(log *logrus.Entry, r *remains.Remains) (gpu string, err error) {
	if gpu, err = gpuKind(o.gpu); err != nil {
		return "", err
	}
	if err := o.settings.Check(gpu); err != nil {
		return "", cli.Usagef("device: --set: %w", err)
	}
	o.chosen.gpus, err = takeGPUs(o.gpu, gpu, o.settings.Policy.SoftMemory,
		func(c *hostgpus.Choice, host []hostgpus.GPU) ([]hostgpus.GPU, error) {
			return o.among(c, host, r)
		})
	if err != nil {
		return "", err
	}
	o.settings.Policy.SoftGPUs, o.settings.Policy.GPUs = softGPUsOf(o.gpu), &o.chosen.gpus
	for i := range o.chosen.gpus {
		g := &o.chosen.gpus[i]
		loglimit.Keep(log).WithField("uuid", g.UUID).Infof("the VM has %v", g)
	}
	return gpu, nil
}

// among chooses among a host's GPUs. If --gpu names none, the arbiter chooses, as it knows what
// each VM has been given, and the choice is noted.
func (o *deviceOptions) among(
	c *hostgpus.Choice, host []hostgpus.GPU, r *remains.Remains,
) (gpus []hostgpus.GPU, err error) {
	count, room := c.Automatic()
	if count == 0 {
		return c.Of(host)
	}
	if o.arbiter != noArbiter {
		gpus, err = o.askForGPUs(count, room, host)
	}
	if gpus == nil && (err == nil || errors.Is(err, client.ErrNone)) {
		gpus, err = c.Of(host)
	}
	if err != nil {
		return nil, err
	}
	o.chosen.room = room
	r.Changed(notedGPUs + hostgpus.Named(gpus))
	r.Changed(notedRoom + size.Format(room))
	return gpus, nil
}

// askForGPUs has the arbiter choose.
func (o *deviceOptions) askForGPUs(
	count int, room uint64, host []hostgpus.GPU,
) ([]hostgpus.GPU, error) {
	name, err := o.vmName()
	if err != nil {
		return nil, err
	}
	all := make([]link.GPU, len(host))
	for i := range host {
		all[i] = link.GPU{Name: host[i].UUID, Memory: host[i].Memory, Free: host[i].Free}
	}
	positions, release, err := client.Choose(o.arbiter, client.Wanted{
		Name: name, Count: count, Room: room, Policy: o.settings.Wishes(),
	}, all)
	if err != nil {
		return nil, err
	}
	o.chosen.release = release
	gpus := make([]hostgpus.GPU, len(positions))
	for k, i := range positions {
		gpus[k] = host[i]
	}
	return gpus, nil
}

// released ends the arbiter's reservation: the VM has joined, or never will.
func (c *chosen) released() {
	if c.release != nil {
		c.release()
		c.release = nil
	}
}

// sameGPUs takes over what the previous process noted of the chosen GPUs, and says whether fact is
// such a note.
func (o *deviceOptions) sameGPUs(fact string) bool {
	if gpus, ok := strings.CutPrefix(fact, notedGPUs); ok {
		o.gpu = gpus
		return true
	}
	room, ok := strings.CutPrefix(fact, notedRoom)
	if ok {
		o.chosen.room, _ = size.Parse(room)
	}
	return ok
}
