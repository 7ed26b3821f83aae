// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/hostgpus"
	"github.com/paracuda/paracuda/gpubackend/worker/addresses"
	"github.com/paracuda/paracuda/gpubackend/worker/watchdog"
)

// errCold ends a worker whose driver was initialised with another environment than the guest
// process's.
var errCold = errors.New("the guest process's CUDA variables need a worker that begins cold")

// ahead is what a worker has done ahead of use.
type ahead struct {
	places   *addresses.Quota  // by the kernel's limit, which it may not read when it is confined
	driver   gpubackend.Driver // it is initialised; nil: it isn't
	confined bool              // the process has confined itself
}

// newAhead is what any worker does first.
func newAhead() ahead { return ahead{places: addresses.NewPlaces()} }

// warmUp initialises the GPU as m says, and waits for a guest process to serve: it returns the
// message that names that process.
func warmUp(
	c Config, m *handover.Message, fds []int, counts counted, dog *watchdog.Watchdog,
) (a ahead, next *handover.Message, _ []int, err error) {
	a = newAhead()
	confine := func() (err error) {
		if m.Asks && !a.confined {
			_, err = confineNow(&c, m)
			a.confined = true
		}
		return err
	}
	if a.driver, err = newWarm(c, m, fds, counts, confine); err == nil {
		err = confine()
	}
	answer := &handover.Message{Kind: handover.KindReady}
	if err != nil {
		answer.Error = err.Error()
	}
	if e := c.Control.Send(answer, nil); err != nil || e != nil {
		return a, nil, nil, errors.Join(err, e)
	}
	dog.SetAsleep(true)
	defer dog.SetAsleep(false)
	next, fds, err = c.Control.Receive()
	if err != nil {
		return a, nil, nil, fmt.Errorf("receive the channel: %w", err)
	}
	return a, next, fds, nil
}

// newWarm makes a driver that is initialised. On the software GPU it confines this process before:
// there the driver loads nothing, and its memory is a file. Confined, the worker has it made by a
// process that sees what is in it.
func newWarm(
	c Config, m *handover.Message, fds []int, counts counted, confine func() error,
) (gpubackend.Driver, error) {
	if m.Policy == nil {
		return nil, errors.New("warm up: no policy")
	}
	limitHost(counts.host, m.Policy.HostBytes(m.GPU))
	if err := counts.join(m.Entry, m.Name(fds).Ledger); err != nil {
		return nil, err
	}
	driver, err := c.NewDriver(m.GPU, *m.Policy, counts.host, counts.device)
	if err != nil {
		return nil, err
	}
	if m.GPU == hostgpus.Soft {
		if err := confine(); err != nil {
			return nil, err
		}
	}
	if err := driver.Warm(m.Home).Err(); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	return driver, nil
}

func countStart(state *handover.State, warm bool) {
	state.Count(handover.Starts, 1)
	if warm {
		state.Count(handover.WarmStarts, 1)
	}
}
