// SPDX-License-Identifier: Apache-2.0

package streams

import (
	"time"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/soft/scheduler"
)

// EventTimes implements gpubackend.Driver.
func (x *Streams) EventTimes(events []gpubackend.Event) (list []gpubackend.EventTime) {
	now := time.Now()
	for _, h := range events {
		e, result := x.event(h)
		if result != gpubackend.Success || e.record == nil {
			continue
		}
		if at, done := x.options.Scheduler.Ended(e.record); done {
			list = append(list, gpubackend.EventTime{Event: h, Ago: int64(now.Sub(at))})
		}
	}
	return list
}

// SetEventTimes implements gpubackend.Driver.
func (x *Streams) SetEventTimes(list []gpubackend.EventTime) gpubackend.Result {
	now := time.Now()
	for _, t := range list {
		e, result := x.event(t.Event)
		if result != gpubackend.Success {
			return result
		}
		e.record = scheduler.Past(now.Add(-time.Duration(t.Ago)))
	}
	return gpubackend.Success
}
