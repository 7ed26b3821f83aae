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

// confine confines this process, and returns the message that describes the guest's memory, and
// its files: that is the start message m, or one that comes afterwards if m says so.
func (w *Worker) confine(
	confine func(gpu string) (listener int, missing, err error), m *handover.Message, memory []int,
) (guest *handover.Message, files []int, err error) {
	listener, missing := -1, error(nil)
	if confine != nil {
		if listener, missing, err = confine(m.GPU); err != nil {
			return nil, nil, err
		}
	}
	defer handover.CloseFiles([]int{listener})
	if !m.Asks {
		return m, memory, nil
	}
	said := &handover.Message{Kind: handover.KindConfined}
	var fds []int
	switch {
	case listener >= 0:
		said.Files.Listener, fds = true, []int{listener}
	case missing != nil:
		said.Error = missing.Error()
	}
	if err := w.control.Send(said, fds); err != nil {
		return nil, nil, err
	}
	for {
		guest, files, err = w.control.Receive()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("receive the guest's memory: %w", err)
		case guest.Kind == handover.KindGuest:
			w.asks = listener >= 0 && len(files) == 0
			return guest, files, nil
		}
		w.early = append(w.early, inbox.Received{Message: guest, Files: files})
	}
}
