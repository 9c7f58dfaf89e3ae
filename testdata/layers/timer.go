// room: service

package service

import (
	"context"
	"time"
)

func waits(ctx context.Context) {
	time.Sleep(1)                      // want: timer
	_ = time.NewTimer(1)               // want: timer
	_ = time.NewTicker(1)              // want: timer
	_ = time.AfterFunc(1, nil)         // want: timer
	_, _ = time.After(1), time.Tick(1) // want: timer want: timer
	_, _ = context.WithTimeout(ctx, 1) // want: timer
}
