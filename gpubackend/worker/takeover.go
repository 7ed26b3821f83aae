// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/paracuda/paracuda/gpubackend/handover"

// A device process may die, and another one go on with its connection. To the program that makes no
// difference: its ring is the worker's own. What the dead one asked for may be half done: a pause
// or a drain that still waits for work to end. The next one doesn't know of it, and asks again for
// what it wants; so that is given up and never answered. What is done at once, such as moving
// memory, is over when this message is obeyed, and its answer came before.

// takeOver tells another device process the worker's position.
func (w *Worker) takeOver(m *handover.Message) error {
	paused, still := w.standstill.TakeOver()
	w.shortage.Answered(false) // a command that lacks room is tried again, and asks again
	answer := &handover.Message{Kind: handover.KindStands, Turn: m.Turn}
	answer.Standing = &handover.Standing{Protocol: handover.Protocol,
		Paused: paused, Still: still, Out: w.suspension.Out(),
		Image: w.suspension.ImageBytes(), Kept: w.suspension.KeptBytes(),
		Mover: w.copies.Reaches(), Asks: w.asks}
	if err := w.control.Send(answer, nil); err != nil {
		return err
	}
	w.copies.AskAgain() // the dead one may not have answered
	return nil
}
