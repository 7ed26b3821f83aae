// SPDX-License-Identifier: Apache-2.0

package worker

import "github.com/paracuda/paracuda/gpubackend/handover"

// A device process may die, and another one go on with its connection. To the program that makes no
// difference: its ring is the worker's own. What the one that died asked for may be half done: a
// pause, or a drain, that still waits for work to end. The next one doesn't know of it, and asks
// again for what it wants; so that is given up, and answered to nobody. What is done at once, as
// moving memory, is done by the time that this message is obeyed, and its answer comes before.

// takeOver tells another device process where the worker stands.
func (w *Worker) takeOver(m *handover.Message) error {
	paused, still := w.standstill.TakeOver()
	w.shortage.Answered(false) // a command that lacks room is tried, and asks, again
	answer := &handover.Message{Kind: handover.KindStands, Turn: m.Turn}
	answer.Standing = &handover.Standing{Protocol: handover.Protocol,
		Paused: paused, Still: still, Out: w.suspension.Out(),
		Image: w.suspension.ImageBytes(), Kept: w.suspension.KeptBytes(),
		Mover: w.copies.Reaches()}
	if err := w.control.Send(answer, nil); err != nil {
		return err
	}
	w.copies.AskAgain() // the one that died may not have come to answer
	return nil
}
