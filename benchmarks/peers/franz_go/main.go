// A steady load from franz-go, in the words of benchmarks/load.py: the same options, the same JSON.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type result struct {
	Client  string       `json:"client"`
	Sent    int          `json:"sent"`
	Failed  int          `json:"failed"`
	CPU     float64      `json:"cpu_us_per_record"`
	Samples [][3]float64 `json:"samples"`
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func main() {
	bootstrap := flag.String("bootstrap", "", "")
	topic := flag.String("topic", "", "")
	partitions := flag.Int("partitions", 100, "")
	rate := flag.Float64("rate", 2000, "")
	size := flag.Int("size", 1000, "")
	seconds := flag.Float64("seconds", 20, "")
	warmUp := flag.Float64("warm-up-s", 4, "")
	backoff := flag.Int("retry-backoff-ms", 100, "")
	flag.Parse()

	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(*bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Duration(*backoff) * time.Millisecond }),
	)
	if err != nil {
		panic(err)
	}
	var lock sync.Mutex
	found := result{Client: "franz-go", Samples: [][3]float64{}}
	send := func(number int, confirm func(error)) {
		value := make([]byte, *size)
		binary.BigEndian.PutUint64(value, uint64(number))
		partition := (number%*partitions + *partitions) % *partitions
		record := &kgo.Record{Topic: *topic, Partition: int32(partition), Value: value}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { confirm(err) })
	}

	var warm sync.WaitGroup
	warm.Add(*partitions * 3)
	for i := 1; i <= *partitions*3; i++ {
		send(-i, func(error) { warm.Done() })
	}
	warm.Wait()

	count := -int(*warmUp * *rate)
	began := time.Now().Add(time.Duration(*warmUp * float64(time.Second)))
	cpu := cpuSeconds()
	for elapsed := time.Since(began).Seconds(); elapsed < *seconds; elapsed = time.Since(began).Seconds() {
		for float64(count) < elapsed**rate {
			if count == 0 {
				fmt.Fprintln(os.Stderr, "ready")
				cpu = cpuSeconds()
			}
			number, sentAt := count, time.Now()
			send(number, func(err error) {
				took := time.Since(sentAt)
				lock.Lock()
				defer lock.Unlock()
				if err != nil {
					found.Failed++
				}
				if number >= 0 {
					wall := float64(sentAt.UnixNano()) / 1e9
					found.Samples = append(found.Samples, [3]float64{float64(number), wall, float64(took) / 1e6})
				}
			})
			count++
		}
		time.Sleep(500 * time.Microsecond)
	}
	if err := client.Flush(context.Background()); err != nil {
		panic(err)
	}
	client.Close()
	found.Sent = count
	found.CPU = (cpuSeconds() - cpu) / float64(count) * 1e6
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
