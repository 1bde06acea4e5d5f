"""The rules for following a partition's leader, and for finding the cluster again.

The rules come from KIP-951 (leaders in Produce and Fetch responses) and KIP-899 (rebootstrap), and from the experience
of clients since their release. Each rule names its source or its reason. Comments and tests refer to the rules by
number.

A *hint* is the new leader that a broker names when it refuses a request for a partition. A *move* is a change of a
partition's leader. The *view* is the client's metadata about its cluster.

This package contains `hints`, which reads hints from responses, and `patience`, which delays failed batches and
fetches, decides when to doubt their leader, and measures moves. ``_core/metadata`` decides how hints change the view.

Hints
    1. A hint counts only with the errors NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, from Produce 10 and Fetch 16
        on. Its leader id and leader epoch must be at least 0, because brokers also send -1. (KIP-951)
    2. A hint must be newer than the known leader epoch. Metadata also counts at the same epoch. (Java)
    3. The leader's address comes from the response's NodeEndpoints or, if that lacks it, from the view. A hint without
        an address is dropped, but the refresh is still requested. (KIP-951)
    4. A hint about a partition that is unknown, unassigned or deleted is ignored. (Java)
    5. A hint belongs to the topic id of its request. If the topic was deleted and another has the same name, a late
        hint must not give the new topic the epochs of the old one. (KIP-516; a bug in franz-go)
    6. A hint is merged into the view: all other topics and brokers stay. If a broker was dropped and added again, it
        would get a second connection, which would break the order of records.
    7. A leader at the same address keeps its connection. At another address it gets a new connection, and an attempt to
        connect to the old address is cancelled.
    8. Each hint also requests a refresh of metadata, whether it is accepted or not. A single wrong hint kept clients of
        franz-go away from the leader for minutes. (KIP-951: "expedited asynchronous metadata refresh")
    9. Behind a proxy, the addresses in hints can be wrong. ``leader_hint_policy`` says whether to use them. The length
        of a frame is checked before memory is allocated for it, because a TLS alert that is read as a length would
        request gigabytes.
    10. A hinted leader is pinned until metadata has reached its epoch. An older response neither drops it nor leaves
        the partition without a leader. If Metadata names another leader at the same epoch, Metadata wins.

Producer
    11. Each time the leader epoch advances, a batch has one free retry without a delay. If it fails again at that
        epoch, it backs off. The first attempt is not a retry (Java: ProducerBatch). If the broker that refuses is the
        leader of the known epoch, it has only not caught up yet, so the wait begins with at most 10 ms and doubles.
    12. If Metadata shows a newer epoch, that ends a backoff in the same way as a hint. Another leader at the same epoch
        does not.
    13. Without a valid hint, the normal backoff and a refresh apply. A broker that keeps refusing at the same epoch
        gets requests at a bounded rate. (KIP-580)
    14. Failed batches are queued again in the order of their sequence numbers. Only the next sequence number is sent,
        and a batch that was sent never gets another one. (KIP-98)
    15. While a partition's batches are in flight to the old leader, no later batches are sent to the new leader. Late
        responses of the old leader count: a success completes the batch, and after a retriable error the batch is
        queued again at once. A broker with much other work gets one request at a time, so a refused request does not
        delay others (`RequestWindow`).
    16. An error of one partition delays only that partition, never other partitions of the broker. (A bug in aiokafka)
    17. A broker that shuts down refuses its partitions one by one. The refresh after the first hint covers all of them,
        and connections to the new leaders are opened before the batches need them. Leaders are never guessed.
    18. Code that runs for each record reads an immutable snapshot of the view.

Metadata
    19. An older epoch does not replace a leader. Another topic id does, even with a lower epoch. A topic's former id
        is accepted again only if most responses contain it, because a broker may never hear of the new topic. Epoch -1
        carries no information, and before Metadata 9 epochs are not reliable (KAFKA-9835). If the epoch stays lower,
        after an unclean recovery, it is accepted after several responses.
    20. A partition whose leader is -1 has no leader, and metadata is refreshed with backoff until it has one. A leader
        that moves away and back counts as not moved.
    21. Refreshes are combined: all requests during a refresh cause at most one more.

Consumer
    22. Only the failed partition moves to another leader, as soon as the error arrives, whatever is buffered. Its
        preferred replica is cleared, and its position is checked against the leader epoch (KIP-320; from Fetch 12 on,
        the fetch does that). If a leader has no record of the epoch, that does not prove data loss, so reading
        continues. (Java resets the position)
    23. UNKNOWN_LEADER_EPOCH means that the broker is behind the client. The client backs off. It requests no refresh
        while it is patient with the broker (rule 33). (KIP-320)

Rebootstrap
    24. With ``metadata_recovery_strategy="rebootstrap"`` (default), the client returns to its bootstrap servers when no
        known broker is ready, connecting or connectable. A broker in reconnect backoff is unavailable, and so is a
        broker that has just refused a connection while another connection is being made. A busy broker is available.
        (KIP-899)
    25. Backoffs survive a rebootstrap. Each cycle logs one line. Names are resolved at every connect.
    26. The client also returns after ``metadata_recovery_rebootstrap_trigger_ms`` without metadata since the first
        attempt, and at once after the error REBOOTSTRAP_REQUIRED. With the strategy "none", that error is a failure
        with backoff. (KIP-1102)
    27. In these two cases, all connections are closed, and requests in flight fail with a retriable error. (KIP-1102)
    28. A Metadata response without brokers does not count as a success.
    29. Batches and topics are kept. `send` does not block, and no data is lost.
    30. By default, a cluster id other than the known one is refused (``cluster_id_mismatch``), because epochs and topic
        ids have no meaning in another cluster. A single address in another cluster does not prove that the client's
        cluster is gone. The error is raised, or the other cluster is accepted, only when all bootstrap servers, at all
        their addresses, lead to it. The client waits for unreachable servers while its patience lasts (rule 33). A
        bootstrap server is asked only for metadata. (KIP-899)
    31. The admin client returns to the bootstrap servers as well. (KIP-1102)

Patience
    32. Each wait has one reason, and does not delay work that has another reason. Each reason for a refresh has its own
        spacing. If a broker is lost after a burst of moves, that causes a refresh at once, however many refreshes hints
        have caused before. A refresh that confirms a hint counts as news. While a lost broker still leads a partition
        in the view, refreshes continue, whether records are due or in backoff, but only for ``request_timeout_ms``
        after the last failure to reach it. Problems that an election solves (a lost broker that leads, a partition
        without a leader) cause a refresh every ``retry_backoff_ms`` for half a minute, because a cluster takes seconds
        to elect. Look-ups of a coordinator begin with a delay of 10 ms, and do not wait for a connection to a lost
        broker. When the leader epoch advances, the consumer's offset queries stop waiting.

Doubt
    33. A broker that answers may still be wrong: it may lag, be isolated, or be broken. The client's patience with it
        is bounded (``_core/trust``). After 3 refusals in a row, or ``2 * retry_backoff_max_ms`` after the first request
        that was refused, the broker is *in doubt*, and another broker is asked. To find a leader, the client then asks
        the brokers for metadata in turn, connected or not, and the broker in doubt last. The same applies to a broker
        that names no brokers, does not answer, or denies a topic. Each further refusal leads to the next broker, with
        the spacing of rule 32, and the first success ends the doubt. A coordinator is looked up after each refusal. If
        it does not say that it has moved, it is asked last who the coordinator is.
        The client also asks bootstrap servers at other addresses, unless the strategy is "none", when no known broker's
        response helps. That is the case after three responses or, if they name no leader, after
        ``retry_backoff_max_ms``. No connection is closed and no metadata is dropped. These servers cannot deny a topic,
        because they may be the known brokers. If a bootstrap server has no better answer either, the client reconnects
        to it after a while, because its name may lead to another broker. (KIP-1102 waits for
        ``metadata_recovery_rebootstrap_trigger_ms``, and then drops connections and metadata)
        If a broker was in doubt or unreachable when a response moved it to another address, it does not go back to the
        former address while it works at the new one. Some brokers may repeat the former address.
        If no other broker is known, and no other has a replica, no more requests are sent. After UNKNOWN_SERVER_ERROR,
        Java gives up the records. Here, an idempotent producer retries them until the leader is in doubt, and then the
        same number of times again. (KIP-951 and KIP-899 bound two cases of this: leaders that moved, and brokers that
        are all gone)
    34. A preferred replica returns its partitions to their leader if the client cannot connect to it within half a
        second, if it holds a fetch ``retry_backoff_max_ms`` longer than it should, or if it is in doubt. It is used
        again once it was reached, or after ``metadata_max_age_ms``. Until then, a leader that names it gets fetches
        without a rack, because a leader sends no records to a client that it redirects. (KIP-392)

Addresses
    35. A connection to a known broker states for which broker and cluster it is, and the server refuses a misrouted
        connection before anything is sent on it (``metadata_cluster_check_enable``; brokers from Kafka 4.4 on). The
        client then returns to its bootstrap servers, but only once until that address has led to its broker again, and
        it keeps its connections to other brokers. After that, it tries the address with a backoff, and refreshes
        metadata. It does none of this with the strategy "none". (KIP-1242)
        Older brokers cannot refuse, so they are asked for their cluster id. (Java does not do this) Without the check,
        this is done for an address that has answered Metadata for another cluster. A member of a group may have joined
        in that cluster. After each new connection, and while its assigned topics are unknown, it therefore sends all
        fields to the coordinator, which then repeats the member's target.
"""
