// SPDX-License-Identifier: Apache-2.0

// Package inbox reads the connection to the device process, and hands whole messages to the
// worker's loop. Messages that don't need the loop it answers at once.
//
// # Who owns what
//
// Read runs on a goroutine of its own, until the connection ends. A message and its files belong to
// the receiver.
//
// # Who may lie
//
// The device process is believed.
package inbox

import "github.com/paracuda/paracuda/gpubackend/handover"

// Received is a message, or the end of the connection.
type Received struct {
	Message *handover.Message
	Files   []int
	Err     error
}

// Conn is the connection to the device process.
type Conn interface {
	Receive() (*handover.Message, []int, error)
	Send(m *handover.Message, files []int) error
}

// Inbox is the messages of the device process that wait for the loop.
type Inbox struct {
	Conn Conn
	// Early are messages that were received before. They come first.
	Early []Received
	// AtOnce obeys a message that doesn't need the loop, and returns the answer; nil for other
	// messages.
	AtOnce func(m *handover.Message, files []int) *handover.Message
	// To gets the messages, and Wake tells the loop.
	To   chan<- Received
	Wake func()
}

// Read runs until the connection ends, and says so to the loop.
func (i *Inbox) Read() {
	for _, r := range i.Early {
		if !i.take(r) {
			return
		}
	}
	for {
		m, files, err := i.Conn.Receive()
		if !i.take(Received{m, files, err}) {
			return
		}
	}
}

// take answers a message at once, or hands it on. It says whether another one may come.
func (i *Inbox) take(r Received) bool {
	if r.Err == nil {
		if answer := i.AtOnce(r.Message, r.Files); answer != nil {
			if r.Err = i.Conn.Send(answer, nil); r.Err == nil {
				return true
			}
		}
	}
	i.To <- r
	i.Wake()
	return r.Err == nil
}
