// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// errChoice says that an answer doesn't fit the request.
var errChoice = errors.New("the arbiter's choice of GPUs doesn't fit the request: " +
	"install the same paracuda for both")

// Wanted says for which VM GPUs are chosen, and how many.
type Wanted struct {
	Name   string // of the VM
	Count  int    // of GPUs
	Room   uint64 // bytes that each of them is to have for the VM
	Policy map[string]string
}

// Choose asks the arbiter at a path to choose among the host's GPUs, and returns their positions in
// that list. They are kept for the VM until release is called, after it has joined. ErrNone says
// that there is no arbiter.
func Choose(path string, w Wanted, host []link.GPU) (chosen []int, release func(), err error) {
	conn, err := Dial(path)
	if err != nil {
		return nil, nil, err
	}
	chosen, err = choose(conn, w, host)
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("choose GPUs: %w", err)
	}
	return chosen, conn.Close, nil
}

func choose(conn *link.Conn, w Wanted, host []link.GPU) ([]int, error) {
	conn.Deadline(time.Now().Add(answerTimeout))
	if err := conn.Send(&link.Request{
		Version: link.Version, Kind: link.Choose, Name: w.Name, GPUs: host, Count: w.Count,
		Room: w.Room, Policy: w.Policy,
	}); err != nil {
		return nil, err
	}
	var a link.Answer
	if _, err := conn.Receive(&a, 0); err != nil {
		return nil, err
	}
	conn.Deadline(time.Time{})
	if err := check(&a); err != nil {
		return nil, err
	}
	for k, i := range a.Chosen {
		if i < 0 || i >= len(host) || slices.Contains(a.Chosen[:k], i) {
			return nil, errChoice
		}
	}
	if len(a.Chosen) != w.Count {
		return nil, errChoice
	}
	return a.Chosen, nil
}
