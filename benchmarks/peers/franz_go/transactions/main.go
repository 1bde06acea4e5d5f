// Transactions one after the other from franz-go: as benchmarks/suite/transactions.py, the same JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type result struct {
	PerSecond float64 `json:"transactions_per_second"`
	P50       float64 `json:"p50"`
	P99       float64 `json:"p99"`
	CPU       float64 `json:"cpu_us"`
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Bootstrap servers, topic, partitions, records of a transaction, bytes, linger, transactions to warm up, to count.
func main() {
	topic := os.Args[2]
	var numbers []int
	for _, text := range os.Args[3:] {
		number, err := strconv.Atoi(text)
		must(err)
		numbers = append(numbers, number)
	}
	partitions, records, size, linger, warmUp, count := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(time.Duration(linger)*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.TransactionalID(fmt.Sprintf("benchmark-%d-%d", os.Getpid(), time.Now().UnixNano())),
	)
	must(err)
	ctx := context.Background()
	value := make([]byte, size)
	transaction := func() float64 {
		must(client.BeginTransaction())
		for i := 0; i < records; i++ {
			record := &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: value}
			client.Produce(ctx, record, func(_ *kgo.Record, err error) { must(err) })
		}
		began := time.Now()
		must(client.Flush(ctx))
		must(client.EndTransaction(ctx, kgo.TryCommit))
		return float64(time.Since(began)) / 1e6
	}
	for i := 0; i < warmUp; i++ {
		transaction()
	}
	cpu, began := cpuSeconds(), time.Now()
	took := make([]float64, count)
	for i := range took {
		took[i] = transaction()
	}
	wall := time.Since(began).Seconds()
	cpu = cpuSeconds() - cpu
	client.Close()
	sort.Float64s(took)
	must(json.NewEncoder(os.Stdout).Encode(result{
		PerSecond: float64(count) / wall,
		P50:       took[count/2],
		P99:       took[min(count-1, int(float64(count)*0.99))],
		CPU:       cpu / float64(count*records) * 1e6,
	}))
}
