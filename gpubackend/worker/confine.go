// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/worker/inbox"
)

// A worker that is confined has no descriptor of the guest's memory. It knows files by numbers, and
// the device process decides on each mapping of them (package mapleave). Where that isn't possible
// it gets the files.
//
// One that is started ahead of use confines itself when it is warm, or before: that takes
// milliseconds, for which its program need not wait. It learns with the start message whether it
// asks.

// confineNow confines this process. If a message says that it asks, it says what came of that.
// listens is whether it has sent a listener.
func confineNow(c *Config, m *handover.Message) (listens bool, err error) {
	listener, missing := -1, error(nil)
	if c.Confine != nil {
		if listener, missing, err = c.Confine(m.GPU); err != nil {
			return false, err
		}
	}
	defer handover.CloseFiles([]int{listener})
	if !m.Asks {
		return false, nil
	}
	said := &handover.Message{Kind: handover.KindConfined}
	var fds []int
	switch {
	case listener >= 0:
		said.Files.Listener, fds = true, []int{listener}
	case missing != nil:
		said.Error = missing.Error()
	}
	return listener >= 0, c.Control.Send(said, fds)
}

// confine confines this process, unless that is done, and returns the message that describes the
// guest's memory, and its files: that is the start message m, or one that comes afterwards.
func (w *Worker) confine(
	c *Config, done bool, m *handover.Message, memory []int,
) (guest *handover.Message, files []int, err error) {
	if done {
		w.asks = m.Asks
		return m, memory, nil
	}
	listens, err := confineNow(c, m)
	if err != nil {
		return nil, nil, err
	}
	if !m.Asks {
		return m, memory, nil
	}
	for {
		guest, files, err = w.control.Receive()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("receive the guest's memory: %w", err)
		case guest.Kind == handover.KindGuest:
			w.asks = listens && len(files) == 0
			return guest, files, nil
		}
		w.early = append(w.early, inbox.Received{Message: guest, Files: files})
	}
}
