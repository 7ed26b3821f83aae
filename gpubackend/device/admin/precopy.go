// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Direction is which way device memory goes ahead of the VM.
type Direction string

// The directions.
const (
	To   Direction = "to"   // where the VM is going to be migrated
	From Direction = "from" // where it comes from
)

// precopy has device memory go ahead, for as long as that takes. Whoever asks is told now and then
// that it goes on: the connection is his, and ends with him.
func (v *VM) precopy(d Direction, file *os.File, c net.Conn) Answer {
	serve := map[Direction]func(*net.UnixConn, func(suspend.Progress)) (uint64, error){
		To: v.PrecopyTo, From: v.PrecopyFrom,
	}[d]
	if serve == nil || file == nil {
		return Answer{Error: fmt.Sprintf("%q isn't a direction, or there is no connection", d)}
	}
	conn, err := socket.Of(file)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	_ = c.SetDeadline(time.Time{})
	var now atomic.Pointer[suspend.Progress]
	now.Store(&suspend.Progress{})
	ended := make(chan Answer, 1)
	begin := time.Now()
	go v.Guard("memory that goes ahead", func() {
		a := Answer{Error: "a fault: the log has it"}
		defer func() {
			_ = conn.Close()
			ended <- a
		}()
		bytes, err := serve(conn, func(p suspend.Progress) { now.Store(&p) })
		a = Answer{Moved: &suspend.Moved{Bytes: bytes, Took: time.Since(begin)}}
		if err != nil {
			a = Answer{Error: err.Error()}
		}
	})
	ticker := time.NewTicker(precopyPause)
	defer ticker.Stop()
	for {
		select {
		case a := <-ended:
			return a
		case <-ticker.C:
			_ = c.SetWriteDeadline(time.Now().Add(adminTimeout))
			_ = json.NewEncoder(c).Encode(&Answer{Progress: now.Load()})
		}
	}
}

// precopyPause is between two answers about progress.
const precopyPause = 250 * time.Millisecond

// AskToPrecopy has device memory go ahead over a connection, which stays the caller's, and returns
// when it has.
func AskToPrecopy(
	control string, d Direction, f *os.File, tell func(suspend.Progress),
) (*Answer, error) {
	return AskWithFile(control, Request{Precopy: d}, f,
		func() error { return errors.New("an unexpected answer") }, tell)
}
