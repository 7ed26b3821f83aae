// SPDX-License-Identifier: Apache-2.0

package standstill

import (
	"fmt"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/lanes"
	"github.com/paracuda/paracuda/gpubackend/savedvm"
)

// MoveOut moves that many bytes of device memory to an image, which may be kept; 0: all, to the
// image that there is.
func (h *Halt) MoveOut(bytes uint64, keep bool) error {
	answer := &handover.Message{Kind: handover.KindMovedOut}
	return h.answer(answer, func() (err error) {
		if bytes == 0 {
			return h.Memory.MoveBack()
		}
		answer.Unchanged, err = h.Memory.MoveOut(bytes, keep)
		answer.Keep = h.Memory.Keeps()
		return err
	})
}

// MoveIn moves it in again.
func (h *Halt) MoveIn() error { return h.whileStill(handover.KindMovedIn, h.Memory.MoveIn) }

// Save writes the program to the stream with these files.
func (h *Halt) Save(files []int, rest savedvm.Rest) error {
	to, err := lanes.Open(files)
	if err == nil {
		defer to.Close()
	}
	return h.whileStill(handover.KindSaved, func() error {
		if err != nil {
			return fmt.Errorf("save: %w", err)
		}
		return h.Program.Save(to, rest)
	})
}

// whileStill does something for which the worker must stand still, and answers.
func (h *Halt) whileStill(kind handover.Kind, do func() error) error {
	return h.answer(&handover.Message{Kind: kind}, do)
}

// answer does something, and sends an answer with its error.
func (h *Halt) answer(answer *handover.Message, do func() error) error {
	err := ErrWorks
	if h.still {
		err = do()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return h.Send(answer)
}
