// room: util

package util // want: table
