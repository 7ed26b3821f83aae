// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// needMover asks the device process for a connection to the mover. That the question can't be sent
// the loop sees as the end of the connection.
func (w *Worker) needMover() {
	_ = w.control.Send(&handover.Message{Kind: handover.KindMover}, nil)
}

// takeMover takes the answer: a connection to the mover, which is ready, or why there is none.
func (w *Worker) takeMover(m *handover.Message, fd int) error {
	if fd < 0 {
		w.copies.Refused(errors.New(m.Error))
		return nil
	}
	if w.copies.Reaches() {
		handover.CloseFiles([]int{fd}) // it was asked for twice
		return nil
	}
	mover, err := w.dial(fd)
	if err != nil {
		w.copies.Refused(fmt.Errorf("connect to the mover: %w", err))
		return nil
	}
	w.copies.Connect(mover)
	return nil
}

// releaseMover gives up the connection, and says so, unless a copy needs it.
func (w *Worker) releaseMover() error {
	if !w.copies.Release() {
		return nil
	}
	return w.control.Send(&handover.Message{Kind: handover.KindRelease}, nil)
}
